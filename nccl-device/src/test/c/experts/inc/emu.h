#pragma once
#include <cuda_runtime.h>
#include <ucontext.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <vector>
#undef __global__
#undef __device__
#undef __forceinline__
#undef __noinline__
#define __device__
#define __forceinline__ inline
#define __noinline__
namespace emu {
struct Bar{int n=0; long gen=0;};
struct Warp{uint32_t v[32]; std::map<uint32_t,Bar> bars;};
struct Block{std::vector<char> sh=std::vector<char>(65536,(char)0xcd); Bar bar; std::vector<Warp> warps; int threads,id,grid;};
struct Fiber{ucontext_t c; std::vector<char> stack; Block*b; int t; bool done=false; std::function<void()> f;};
inline ucontext_t mainc; inline Fiber*cur; inline unsigned long long ticks=0;
inline uint32_t rnd=1;
inline void yield(){swapcontext(&cur->c,&mainc);}
inline void* shared(){return cur->b->sh.data();}
inline void wait(Bar&b,int need){long g=b.gen; if(++b.n==need){b.n=0;b.gen++;} else while(b.gen==g) yield();}
inline void entry(){cur->f(); cur->done=true; while(1) yield();}
struct U3{unsigned x;};
}
inline emu::U3 tidx(){return {(unsigned)emu::cur->t};}
#define threadIdx (tidx())
#define blockIdx (emu::U3{(unsigned)emu::cur->b->id})
#define blockDim (emu::U3{(unsigned)emu::cur->b->threads})
#define gridDim (emu::U3{(unsigned)emu::cur->b->grid})
inline void __syncthreads(){emu::wait(emu::cur->b->bar,emu::cur->b->threads);}
namespace emu{
inline Warp& warp(){return cur->b->warps[cur->t/32];}
inline void wsync(uint32_t m){wait(warp().bars[m],__builtin_popcount(m));}
template<class F> auto coll(uint32_t m,uint32_t v,F f){Warp&w=warp(); if(!(m>>(cur->t%32)&1)) abort(); w.v[cur->t%32]=v; wsync(m); auto r=f(w.v,cur->t%32); wsync(m); return r;}
}
inline void __syncwarp(){emu::wsync(~0u);}
inline uint32_t __match_any_sync(uint32_t m,uint32_t v){return emu::coll(m,v,[&](uint32_t*x,int){uint32_t r=0;for(int i=0;i<32;i++)if((m>>i&1)&&x[i]==v)r|=1u<<i;return r;});}
inline uint32_t __shfl_up_sync(uint32_t m,uint32_t v,int d){return emu::coll(m,v,[&](uint32_t*x,int l){return l>=d?x[l-d]:v;});}
inline uint32_t __shfl_sync(uint32_t m,uint32_t v,int s){return emu::coll(m,v,[&](uint32_t*x,int){return x[s];});}
inline float __shfl_xor_sync(uint32_t m,float v,int d){uint32_t u;memcpy(&u,&v,4);u=emu::coll(m,u,[&](uint32_t*x,int l){return x[l^d];});memcpy(&v,&u,4);return v;}
inline int __ffs(uint32_t x){return __builtin_ffs(x);} inline int __popc(uint32_t x){return __builtin_popcount(x);}
template<class T> T atomicAdd(T*p,T v){T o=*p;*p+=v;return o;}
inline float __fadd_rn(float a,float b){return a+b;} inline float __fmul_rn(float a,float b){return a*b;}
template<class T> T __ldcv(const T*p){return *p;}
using std::min; using std::max;
