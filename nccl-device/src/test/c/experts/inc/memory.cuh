#pragma once
#include "emu.h"
namespace nccl4j {
using u32=uint32_t; using u64=unsigned long long;
struct Pack{u64 lo,hi;};
struct LineFlags{u32 step,call; LineFlags(u32 s,u32 g):step(s),call(s+(g<<16)){} bool match(uint4 l)const{return l.y==step&&l.w==call;}};
inline void storeLine(void*p,u64 d,LineFlags f){emu::yield(); *(uint4*)p=uint4{(u32)d,f.step,(u32)(d>>32),f.call};}
inline uint4 loadLine(const void*p){emu::yield(); return *(const uint4*)p;}
inline u64 unlikeFlag(u64,u64){return 0;}
inline u64 loadWordAcquire(const void*p){emu::yield(); return *(volatile const u64*)p;}
inline u64 loadWordRelaxed(const void*p){return loadWordAcquire(p);}
inline void storeWordRelaxed(void*p,u64 v){*(volatile u64*)p=v;}
inline void fenceSystem(){}
inline u32 loadControl(const void*p){return *(volatile const u32*)p;}
inline void storeControl(void*p,u32 v){*(volatile u32*)p=v;}
inline u64 nanoseconds(){return emu::ticks;}
}
