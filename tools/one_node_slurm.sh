#!/usr/bin/env bash
# Start a Slurm of one node on this machine, for `pytest -m slurm`. As root, in a container that is thrown away:
# it overwrites /etc/slurm. On Debian: apt-get install slurm-wlm munge.
set -euo pipefail

host=$(hostname -s)
mkdir -p /etc/slurm /var/spool/slurmctld /var/spool/slurmd /run/munge
touch /dev/notagpu0 /dev/notagpu1 # stand for the GPUs that jobs are given
cat >/etc/slurm/slurm.conf <<CONF
ClusterName=one
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
GresTypes=gpu
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) RealMemory=$(free -m | awk '/^Mem/ {print int($2 * 0.8)}') Gres=gpu:2
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
echo "NodeName=$host Name=gpu File=/dev/notagpu[0-1]" >/etc/slurm/gres.conf
chown -R munge: /run/munge /etc/munge
su -s /bin/sh munge -c munged
slurmctld
slurmd
for _ in $(seq 30); do
    sinfo --noheader --format=%T | grep -q idle && exec sinfo
    sleep 1
done
tail /var/log/slurmctld.log /var/log/slurmd.log >&2
exit 1
