# Runs inside the emulated machine, after tests/kernels/run has copied all files: causes of slow requests that need kernel
# modules which the machine of the other tests lacks (netem, dm-delay), and causes that other kernels report differently.
# tests/kernels/causes.py evaluates the output of `sonde why`. The server's pages are in tests/workloads/servers/server.c.
say() { echo "@@@ causes $*"; }
get() { wget -q -O /dev/null "http://127.0.0.1:$1" || say "failed: $1"; }

say begin
insmod /modules/brd.ko rd_nr=1 rd_size=16384
for module in dm-mod dm-delay sch_netem sch_prio cls_u32; do
    insmod /modules/$module.ko
done
mkdir -p /disk
mke2fs -q /dev/ram0 >/dev/null 2>&1 || mke2fs /dev/ram0 >/dev/null
/t/dmsetup create --noudevsync slow --table "0 $(cat /sys/block/ram0/size) delay /dev/ram0 0 100"
mount -t ext2 /dev/dm-0 /disk
echo +cpu >/sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/small

/t/server threads 8001 /disk >/dev/null &
/t/server threads 8002 /tmp >/dev/null &
taskset 2 /t/server threads 8003 /tmp >/dev/null &
sh -c 'echo $$ >/sys/fs/cgroup/small/cgroup.procs; exec /t/server threads 8004 /tmp' >/dev/null &
/t/sonde up --listen 127.0.0.1:7070 --set budget.one_cpu=1000% >/tmp/up 2>&1 &
for i in $(seq 500); do # Linux 5.10 takes minutes in an emulator to verify the programs
    wget -q -O /dev/null http://127.0.0.1:7070/healthz 2>/dev/null && break
    sleep 1
done

get "8001/disk?ms=400"

/t/tc qdisc add dev lo root netem delay 80ms
get "8001/downstream?ms=0&port=8002"
/t/tc qdisc del dev lo root

# Packets to the service are lost for a while: its band gets no other packets.
/t/tc qdisc add dev lo root handle 1: prio bands 4
/t/tc qdisc add dev lo parent 1:4 netem loss 100%
/t/tc filter add dev lo parent 1: protocol ip u32 match ip dport 8002 0xffff flowid 1:4
(sleep 0.5 && /t/tc qdisc del dev lo root) &
get "8001/downstream-lost?ms=0&port=8002"

for i in 1 2 3; do
    taskset 2 sh -c 'while :; do :; done' &
    hogs="$hogs $!"
done
get "8003/cpu-hog?ms=200"
kill $hogs

echo "5000 100000" >/sys/fs/cgroup/small/cpu.max
get "8004/cpu-quota?ms=40"

for i in $(seq 30); do
    /t/sonde why --json --slowest 100 >/tmp/why 2>/tmp/why.err
    [ "$(grep -cE '"route":"/(disk|downstream|downstream-lost|cpu-hog|cpu-quota)"' /tmp/why)" = 5 ] && break
    sleep 1
done
say why
cat /tmp/why
say end
cat /tmp/up /tmp/why.err
