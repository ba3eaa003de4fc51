#!/bin/sh
# Says which tests a build has left out, and how they are run.
#
#   left-out.sh TAGS     tags of tests, with commas between them
set -eu
cd "$(dirname "$0")/../../.."

how() {
  case $1 in
    gpu) echo "they need GPUs: ./nccl dist makes an archive whose ./gpu-tests runs them" ;;
    rdma) echo "they need the guest of nccl-it/src/test/rdma: mvn -B verify -Prdma, see CONTRIBUTING.md" ;;
    *) echo "mvn -B verify -Dexcluded.tags=gpu,rdma runs them too" ;;
  esac
}

for tag in $(echo "$1" | tr , ' '); do
  classes=$(grep -rl --include='*.java' "@Tag(\"$tag\")" ./*/src/test | wc -l)
  [ "$classes" = 0 ] || echo "left out: $classes classes of tests with the tag $tag; $(how "$tag")"
done
