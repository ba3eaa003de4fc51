#pragma once
namespace nccl4j { inline void awaitPredecessor(){} inline void admitSuccessor(){} }
