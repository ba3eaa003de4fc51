#include "emu.h"
#include "expert_combine.cuh"
#include "expert_dispatch.cuh"
#include <random>
using namespace nccl4j; using std::vector;
template<class F> void runAll(int ranks,int grid,int threads,uint32_t seed,F kernel){
  vector<std::unique_ptr<emu::Block>> bs; vector<std::unique_ptr<emu::Fiber>> fs;
  for(int r=0;r<ranks;r++)for(int b=0;b<grid;b++){auto B=std::make_unique<emu::Block>();B->threads=threads;B->id=b;B->grid=grid;B->warps.resize(threads/32);
    for(int t=0;t<threads;t++){auto f=std::make_unique<emu::Fiber>();f->stack.resize(98304);f->b=B.get();f->t=t;f->f=[=]{kernel(r);};getcontext(&f->c);f->c.uc_stack={f->stack.data(),0,f->stack.size()};f->c.uc_link=nullptr;makecontext(&f->c,(void(*)())emu::entry,0);fs.push_back(std::move(f));}
    bs.push_back(std::move(B));}
  std::mt19937 g(seed); long left=fs.size(), idle=0;
  // random order of blocks each sweep
  while(left){ left=0; int o=g()%fs.size(); for(size_t i=0;i<fs.size();i++){auto&f=fs[(i+o)%fs.size()]; if(f->done)continue; left++; if(g()%4==0)continue; emu::cur=f.get(); swapcontext(&emu::mainc,&f->c);} emu::ticks+=1000; if(++idle>3000000){printf("HANG\n");exit(1);} }
}
template<class T,bool FP8> void test(int N,int L,int T_,int K,int H,int grid,int threads,uint32_t seed,int mode){
  std::mt19937 g(seed); const int E=N*L; const u32 row=H*sizeof(T), wire=FP8?H:row, staged=FP8?(wire+H/128*4+15)/16*16:wire;
  u64 off=0; auto take=[&](u64 n){u64 o=off; off+=(n+127)/128*128; return o;};
  u64 fb=8ull*32*grid, df=take(fb),cf=take(fb),bf=take(fb); u64 tb=(16ull*(1+(T_*K+1)/2)+127)/128*128, tab=take(2*N*tb), tok=take(2ull*N*T_*staged), out=take((u64)T_*K*row);
  u64 stride=off; vector<__attribute__((aligned(16))) char> dummy; char*win=(char*)aligned_alloc(256,(stride*N+255)/256*256); memset(win,0,stride*N);
  u64 rows=(u64)N*T_*K, cap=(u64)N*((T_+grid-1)/grid)*K;
  struct R{vector<nccl4jExpertState> st; vector<u64> li; vector<int> ke; vector<float> kw; u32 kc; vector<Pack> rc; vector<float> sc; vector<int> co,of; vector<int> ex; vector<float> w; vector<Pack> x; vector<Pack> y; vector<Pack> res; nccl4jControl c; int count;};
  vector<R> R_(N); vector<nccl4jExpertArguments> A(N);
  for(int r=0;r<N;r++){auto&q=R_[r]; memset(&q.c,0,sizeof q.c); q.st.assign(grid,nccl4jExpertState{}); q.li.assign(cap*grid,0); q.ke.assign(T_*K,77);q.kw.assign(T_*K,9);q.rc.assign(rows*wire/16,{~0ull,~0ull});q.sc.assign(rows*std::max(1,H/128),-1);q.co.assign(L*N,-7);q.of.assign(L+1,-7);q.ex.resize(T_*K);q.w.resize(T_*K);q.x.resize((u64)T_*row/16+1);q.y.resize(rows*row/16);q.res.resize((u64)T_*row/16+1);
    auto&a=A[r]; memset(&a,0,sizeof a); a.comm.control=(u64)&q.c;a.comm.budget=1ull<<60;a.comm.rank=r;a.comm.nRanks=N; a.window=(u64)win;a.stride=stride;a.dispatchFlags=df;a.combineFlags=cf;a.beginFlags=bf;a.tables=tab;a.tableBytes=tb;a.tokens=tok;a.stagedRow=staged;a.outputs=out;a.state=(u64)q.st.data();a.lists=(u64)q.li.data();a.listCapacity=cap;a.keptExperts=(u64)q.ke.data();a.keptWeights=(u64)q.kw.data();a.keptCount=(u64)&q.kc;a.received=(u64)q.rc.data();a.scales=(u64)q.sc.data();a.counts=(u64)q.co.data();a.offsets=(u64)q.of.data();a.rows=rows;a.rowBytes=row;a.wireRow=wire;a.hidden=H;a.maxTokens=T_;a.topK=K;a.nExperts=E;a.localExperts=L;}
  for(int call=0;call<4;call++){
    for(int r=0;r<N;r++){auto&q=R_[r]; q.count = mode==1&&(int)(g()%2)==0?0: mode==2? T_: g()%(T_+1); for(auto&e:q.ex){ e = mode==3? E+5 : mode==2? E-1 : (int)(g()%(E+1))-1;} for(auto&w:q.w) w=(g()%1000)/500.0f-1; T*x=(T*)q.x.data(); for(u64 i=0;i<(u64)T_*H;i++) x[i]=(T)((g()%2001)/100.0f-10); if(q.count>0&&FP8) for(int i=0;i<128;i++) x[i]=(T)0.0f;
      auto&a=A[r]; a.send=(u64)q.x.data();a.experts=(u64)q.ex.data();a.weights=(u64)q.w.data();a.tokenCount=q.count;}
    runAll(N,grid,threads,g(),[&](int r){experts::dispatch<T,FP8?experts::Wire::FP8:experts::Wire::SAME>(A[r]);});
    // oracle
    for(int r=0;r<N;r++){auto&q=R_[r]; if(mode==3){ if(q.count>0&&(q.c.failedKind!=4||!q.c.failed||q.c.failedPeer!=r||(u32)q.c.failedStep!=(u32)E+5)){printf("not refused\n");exit(1);} if(q.of[L]!=0){printf("rows of an invalid expert\n");exit(1);} if(r==N-1) return; continue; } if(q.c.failed){printf("FAILED kind %u\n",q.c.failedKind);exit(1);} u64 n=0;
      for(int e=0;e<L;e++){ if(q.of[e]!=(int)n){printf("offset\n");exit(1);} for(int s=0;s<N;s++){int c=0; for(int i=0;i<R_[s].count*K;i++) if(R_[s].ex[i]==r*L+e){c++; const T*x=(T*)R_[s].x.data()+(u64)(i/K)*H;
          if(!FP8){ if(memcmp((char*)q.rc.data()+n*wire,x,row)){printf("row %llu of rank %d\n",n,r);exit(1);} }
          else for(int gq=0;gq<H/128;gq++){float m=0; for(int j=0;j<128;j++) m=fmaxf(m,fabsf((float)x[gq*128+j])); float sc=m==0?1:m/448.0f, fa=m==0?1:448.0f/m; if(q.sc[n*(H/128)+gq]!=sc){printf("scale\n");exit(1);} for(int j=0;j<128;j++) if(((unsigned char*)q.rc.data())[n*wire+gq*128+j]!=__nv_cvt_float_to_fp8((float)x[gq*128+j]*fa,__NV_SATFINITE,__NV_E4M3)){printf("fp8\n");exit(1);} }
          n++; } if(q.co[e*N+s]!=c){printf("count %d %d\n",q.co[e*N+s],c);exit(1);} } }
      if(q.of[L]!=(int)n){printf("total\n");exit(1);}
    }
    for(int again=0;again<(call==1?0:call==2?3:1);again++){
      // outputs: row -> value known by (r,row): keep map from entry
      vector<vector<u64>> rowOf(N); for(int s=0;s<N;s++) rowOf[s].assign(T_*K,0);
      for(int r=0;r<N;r++){auto&q=R_[r]; T*y=(T*)q.y.data(); u64 n=0; for(int e=0;e<L;e++)for(int s=0;s<N;s++)for(int i=0;i<R_[s].count*K;i++) if(R_[s].ex[i]==r*L+e){rowOf[s][i]=n++;} for(u64 i=0;i<n*H;i++) y[i]=(T)((g()%2001)/100.0f-10); A[r].send=(u64)q.y.data();A[r].recv=(u64)q.res.data(); memset(q.res.data(),0xee,q.res.size()*16);}
      // poison experts and weights: combine must use what dispatch kept
      vector<vector<int>> ex; vector<vector<float>> ws; for(auto&q:R_){ex.push_back(q.ex);ws.push_back(q.w);}
      runAll(N,grid,threads,g(),[&](int r){experts::combine<T>(A[r]);});
      for(int s=0;s<N;s++){T*o=(T*)R_[s].res.data(); for(int t=0;t<R_[s].count;t++)for(int h=0;h<H;h++){float sum=0; for(int k=0;k<K;k++){int e=ex[s][t*K+k]; if(e<0)continue; sum=sum+ws[s][t*K+k]*(float)((T*)R_[e/L].y.data())[rowOf[s][t*K+k]*H+h];} T want=(T)sum; if(memcmp(&want,&o[(u64)t*H+h],sizeof(T))){printf("combine s %d t %d h %d: %g not %g\n",s,t,h,(float)o[(u64)t*H+h],(float)want);exit(1);} }
        for(size_t i=(u64)R_[s].count*row;i<R_[s].res.size()*16;i++) if(((unsigned char*)R_[s].res.data())[i]!=0xee){printf("beyond\n");exit(1);} }
    }
  }
  free(win);
}
int main(){ test<float,false>(2,3,7,2,8,2,64,1,3); test<__nv_bfloat16,true>(3,2,5,3,128,2,64,2,3); printf("invalid experts refused\n");
  for(int m=0;m<3;m++){
    test<float,false>(2,3,7,2,8,2,64,1+m,m); test<__nv_bfloat16,false>(3,2,9,3,24,2,64,2+m,m); test<__half,false>(1,5,6,4,8,3,32,3+m,m);
    test<__nv_bfloat16,true>(2,4,5,2,256,2,64,4+m,m); test<float,true>(3,1,4,3,128,1,96,5+m,m); test<__nv_bfloat16,false>(2,40,40,8,16,4,64,6+m,m);
    test<__half,false>(4,70,3,1,8,2,32,7+m,m); printf("mode %d right\n",m); }
}
