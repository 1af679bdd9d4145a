// What the routes do, and the log of what they waited for. http.go and grpc.go are the servers: PORT LOG FOLDER
package main

import (
	"encoding/json"
	"io"
	"math/rand"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	block     = 64 << 10
	nothingNs = 200_000 // a remainder below this is the cost of measuring
)

type item struct {
	Cause string `json:"cause"`
	Tid   int    `json:"tid"`
	T0    int64  `json:"t0"`
	T1    int64  `json:"t1"`
	Ns    int64  `json:"ns"`
}

type line struct {
	Id    int    `json:"id"`
	Route string `json:"route"`
	Tid   int    `json:"tid"`
	T0    int64  `json:"t0"`
	T1    int64  `json:"t1"`
	Truth []item `json:"truth"`
}

func clock(which uintptr) int64 {
	var t syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&t)), 0)
	return t.Nano()
}

func now() int64 { return clock(1) } // CLOCK_MONOTONIC

func cpuNs() int64 { return clock(3) } // CLOCK_THREAD_CPUTIME_ID

func delayNs() int64 {
	text, _ := os.ReadFile("/proc/thread-self/schedstat")
	ns, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	return ns
}

// The caller has locked its goroutine to its thread.
func account(rest, runQueue string, work func()) []item {
	delay, cpu, t0 := delayNs(), cpuNs(), now()
	work()
	t1 := now()
	cpu, delay = cpuNs()-cpu, delayNs()-delay
	truth := []item{}
	for _, one := range []item{{Cause: "cpu", Ns: cpu}, {Cause: runQueue, Ns: delay}, {Cause: rest, Ns: t1 - t0 - cpu - delay}} {
		if one.Cause != "" && one.Ns > nothingNs {
			one.Tid, one.T0, one.T1 = syscall.Gettid(), t0, t1
			truth = append(truth, one)
		}
	}
	return truth
}

func whole(cause string, t0, t1 int64) []item {
	return []item{{cause, syscall.Gettid(), t0, t1, t1 - t0}}
}

func spin(ms float64) func() {
	return func() {
		for ends := cpuNs() + int64(ms*1e6); cpuNs() < ends; {
		}
	}
}

var lock sync.Mutex

// A goroutine takes the lock, sleeps, and releases it.
func waitForLock(ms float64) []item {
	t0, held := now(), make(chan bool)
	go func() {
		lock.Lock()
		close(held)
		time.Sleep(time.Duration(ms * 1e6))
		lock.Unlock()
	}()
	<-held
	lock.Lock()
	lock.Unlock()
	return whole("lock", t0, now())
}

func disk(ms float64) []item {
	file, err := syscall.Open(os.Args[3]+"/direct", syscall.O_RDONLY|syscall.O_DIRECT, 0)
	if err != nil {
		panic(err)
	}
	defer syscall.Close(file)
	var stat syscall.Stat_t
	syscall.Fstat(file, &stat)
	memory, _ := syscall.Mmap(-1, 0, block, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	defer syscall.Munmap(memory)
	return account("disk", "run_queue", func() {
		for ends := now() + int64(ms*1e6); now() < ends; {
			if _, err := syscall.Pread(file, memory, rand.Int63n(stat.Size/block)*block); err != nil {
				panic(err)
			}
		}
	})
}

var live []*[]int

// A goroutine that asks for a collection waits for it; other ones go on meanwhile.
func collect(ms float64) []item {
	for i := len(live); i < 5_000_000; i++ {
		live = append(live, &[]int{i})
	}
	t0 := now()
	if ms == 0 {
		return []item{}
	}
	runtime.GC()
	return whole("gc", t0, now())
}

func work(route string, ms float64, service string) []item {
	switch route {
	case "cpu":
		return account("", "run_queue", spin(ms))
	case "quota":
		return account("quota", "quota", spin(ms))
	case "disk":
		return disk(ms)
	}
	runtime.UnlockOSThread()
	t0 := now()
	switch route {
	case "sleep":
		time.Sleep(time.Duration(ms * 1e6))
		return whole("sleep", t0, min(now(), t0+int64(ms*1e6)))
	case "lock":
		return waitForLock(ms)
	case "gc":
		return collect(ms)
	case "downstream":
		reply, err := http.Get("http://127.0.0.1:" + service + "/slow?ms=" + strconv.FormatFloat(ms, 'f', -1, 64))
		if err != nil {
			panic(err)
		}
		io.Copy(io.Discard, reply.Body)
		reply.Body.Close()
		return whole("downstream", t0, now())
	}
	return []item{}
}

var log = openLog()

func openLog() *os.File {
	file, err := os.OpenFile(os.Args[2], os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		panic(err)
	}
	return file
}

// Handles a request: its target says what to do.
func handle(target *url.URL) line {
	t0, q := now(), target.Query()
	id, _ := strconv.Atoi(q.Get("id"))
	ms, _ := strconv.ParseFloat(q.Get("ms"), 64)
	route := strings.Split(target.Path, "/")[1]
	runtime.LockOSThread()
	truth := work(route, ms, q.Get("service"))
	runtime.UnlockOSThread()
	return line{id, route, syscall.Gettid(), t0, now(), truth}
}

// After the reply.
func record(one line) {
	text, _ := json.Marshal(one)
	log.Write(append(text, '\n'))
}
