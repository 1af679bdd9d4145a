# Runs inside the emulated machine, after tests/kernels/run has copied all files: the output of doctor; recordings, also of a CPU that goes
# offline and online; containers and units where only cgroup v2 is mounted. Prints lines in cmocka's format.
verdict() {
    if [ "$2" = 0 ]; then
        echo "[       OK ] $1"
    else
        cat /tmp/said
        cut -c 1-40 /tmp/node.folded
        echo "[  FAILED  ] $1"
    fi
}
# There are samples of the recursion under the command $1, and nearly all of them are complete. Their number and fraction depend on the
# speed of the machine.
whole() {
    awk -v name="$1" 'index($0, name ";") == 1 && /recurse|deep_leaf/ {all += $NF; if (/_start;.*;main;recurse;/) good += $NF}
        END {exit !(good >= 10 && good >= 0.95 * all)}' /tmp/node.folded
}

echo "[ RUN      ] doctor"
/t/sonde doctor --json >/tmp/said 2>&1
doctor=$?
for probe in "CPU samples" requests "traced requests" "stacks of servers' waits" "process lifecycle" "kernel function names" \
    "off-CPU time" "I/O of file systems"; do
    grep -qF "{\"attached\":true,\"probe\":\"$probe\"," /tmp/said || doctor=1
done
if grep -q ' register_fprobe$' /proc/kallsyms; then # the kernel has kprobe.multi
    grep -qF '"probe":"I/O of file systems","method":"functions of system calls"' /tmp/said || doctor=1
fi
verdict doctor $doctor
/t/sonde doctor # for readers of the console

echo "[ RUN      ] record"
/t/sonde record -F 99 -o /tmp/node.folded -- /t/deep 40 3 >/tmp/said 2>&1 && whole deep
verdict record $?

echo "[ RUN      ] cpu_hotplug"
cp /t/deep /tmp/returned
cat >/tmp/scenario <<'END'
CPU=/sys/devices/system/cpu/cpu1/online
# Forked before and executed after: the exec is not recorded, because the CPU has no perf event yet.
sh -c 'until [ -e /tmp/go ]; do usleep 1000; done; exec taskset 2 /tmp/returned 40 8' >/dev/null &
echo 0 >$CPU
/t/deep 40 3 >/dev/null
echo 1 >$CPU
touch /tmp/go
wait
END
/t/sonde record -F 99 -o /tmp/node.folded -- sh /tmp/scenario >/tmp/said 2>&1 && whole returned && whole deep
verdict cpu_hotplug $?

echo "[ RUN      ] cgroup_v2_alone"
id=0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
mkdir -p /sys/fs/cgroup/system.slice/docker-$id.scope /sys/fs/cgroup/system.slice/web.service
sh -c "echo \$\$ >/sys/fs/cgroup/system.slice/docker-$id.scope/cgroup.procs; exec /t/deep 40 120" >/dev/null &
inside=$!
sh -c "echo \$\$ >/sys/fs/cgroup/system.slice/web.service/cgroup.procs; exec /t/deep 41 120" >/dev/null &
unit=$!
sleep 1
/t/sonde record -c 0123456789ab -F 99 -d 3 -o /tmp/inside.pb.gz >/tmp/said 2>&1
/t/sonde record -p $unit -F 99 -d 3 -o /tmp/unit.pb.gz >>/tmp/said 2>&1
kill $inside $unit
zcat /tmp/inside.pb.gz | grep -q $id && ! zcat /tmp/inside.pb.gz | grep -q web.service && zcat /tmp/unit.pb.gz | grep -q web.service
verdict cgroup_v2_alone $?

# Its symbols were not loaded when the kernel's were first read, and its code is at formerly unused addresses.
echo "[ RUN      ] module_loaded_later"
cat >/tmp/scenario <<'END'
dd if=/dev/urandom of=/dev/null bs=1M count=20 2>/dev/null
insmod /modules/brd.ko rd_nr=1 rd_size=16384
i=0
while [ $i -lt 20 ]; do
    dd if=/dev/zero of=/dev/ram0 bs=1M count=16 conv=fsync 2>/dev/null
    i=$((i + 1))
done
rmmod brd
END
if [ -e /modules/brd.ko ]; then
    /t/sonde record -F 99 -o /tmp/node.folded -- sh /tmp/scenario >/tmp/said 2>&1 &&
        awk '/random|chacha/ {before += $NF} /;brd_[a-z_]*_\[k]/ {all += $NF} END {print before, all; exit !(before && all >= 5)}' /tmp/node.folded >>/tmp/said
    verdict module_loaded_later $?
else
    echo "/modules/brd.ko is not there"
    echo "[  SKIPPED ] module_loaded_later"
fi
