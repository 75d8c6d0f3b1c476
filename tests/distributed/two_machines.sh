#!/usr/bin/env bash
# Trains on two machines, each a network namespace of this one: as docs/distributed.md describes it. Arguments:
# the program, a folder. Exits with 77 where namespaces cannot be made.
set -euo pipefail
program=$1 folder=$2
a=covnoise-a-$$ b=covnoise-b-$$
clean() { for name in "$a" "$b"; do ip netns del "$name" 2>/dev/null || true; done; }
trap clean EXIT
ip netns add "$a" 2>/dev/null && ip netns add "$b" 2>/dev/null || exit 77
ip link add eth0 netns "$a" type veth peer name eth0 netns "$b" || exit 77
ip -n "$a" addr add 10.77.0.1/24 dev eth0
ip -n "$b" addr add 10.77.0.2/24 dev eth0
for name in "$a" "$b"; do
  ip -n "$name" link set lo up
  ip -n "$name" link set eth0 up
done
machine() {  # number, namespace, folder
  ip netns exec "$2" "$program" launch --nnodes 2 --node-rank "$1" --address 10.77.0.1 --port 29500 \
    train --model mlp --data glyphs --regime lb-diag --epochs 1 --timeout 60 --threads 1 --set train.batch=32 \
    --set data.train_limit=64 --set data.test_limit=50 --set noise.small_batch=4 --out "$folder/$3"
}
machine 1 "$b" b &
machine 0 "$a" a
wait $!
