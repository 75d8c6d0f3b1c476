#!/usr/bin/env bash
# slurm.sh FOLDER COMMAND...: runs the command with a Slurm of this machine alone, whose daemons live in the folder and
# end with the command. Exits with 77, and says why, where Slurm or munge is not installed or does not start.
set -uo pipefail
folder=$1
shift
PATH=$PATH:/usr/sbin:/sbin
skip() {
  echo "$1"
  exit 77
}
for program in munged slurmctld slurmd sinfo srun; do
  command -v "$program" >/dev/null || skip "$program is not installed (Debian: slurm-wlm and munge)"
done
daemons=()
clean() {  # after the last step has told slurmctld that it is done
  for ((i = 0; i < 100; ++i)); do
    [[ -n $(squeue --noheader 2>/dev/null) ]] || break
    sleep 0.1
  done
  ((${#daemons[@]} == 0)) || kill -KILL "${daemons[@]}" 2>/dev/null
  wait 2>/dev/null
}
trap clean EXIT

mkdir -p "$folder/state" "$folder/spool"
head -c 1024 /dev/urandom >"$folder/munge.key"
chmod 400 "$folder/munge.key"
munged --foreground --force --key-file="$folder/munge.key" --socket="$folder/munge" --pid-file="$folder/munged.pid" \
  --log-file="$folder/munged.log" --seed-file="$folder/munged.seed" >"$folder/munged.out" 2>&1 &
daemons+=($!)

read -r port other_port < <(python3 - <<'END'
import socket
sockets = [socket.socket() for _ in range(2)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
print(*(each.getsockname()[1] for each in sockets))
END
)
user=$(id -un)
export SLURM_CONF=$folder/slurm.conf
cat >"$SLURM_CONF" <<END
ClusterName=covnoise
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=$user
SlurmdUser=$user
SlurmctldPort=$port
SlurmdPort=$other_port
AuthInfo=socket=$folder/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
NodeName=localhost NodeAddr=127.0.0.1 CPUs=$(nproc)
PartitionName=all Nodes=ALL Default=YES
END
slurmctld -D -f "$SLURM_CONF" >"$folder/slurmctld.out" 2>&1 &
daemons+=($!)
slurmd -D -f "$SLURM_CONF" -N localhost >"$folder/slurmd.out" 2>&1 &
daemons+=($!)

running() { kill -0 "${daemons[@]}" 2>/dev/null; }
for ((i = 0; i < 600; ++i)); do
  [[ -n $(sinfo --noheader --states=idle 2>/dev/null) ]] && break
  running || break
  sleep 0.1
done
[[ -n $(sinfo --noheader --states=idle 2>/dev/null) ]] ||
  skip "Slurm does not start here: $(tail -qn 3 "$folder"/*.log "$folder"/*.out 2>/dev/null | tr '\n' ' ')"
"$@"
