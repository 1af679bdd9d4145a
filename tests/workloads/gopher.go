// Go frames: goroutines on stacks of their own, methods and closures. `gopher [SECONDS]` With WORKLOAD_FIRE=N in the
// environment, SIGUSR1 makes the leaves call getppid() N times together, and the program exits. With `churn`: garbage,
// which allocating goroutines help to collect, on the stack of their thread; goroutines that wait for each other;
// stacks that grow.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

type burrow struct{ depth int }

var firings, over int64

func waitToFire(fire int64) {
	fired := make(chan os.Signal, 1)
	signal.Notify(fired, syscall.SIGUSR1)
	go func() {
		<-fired
		atomic.StoreInt64(&firings, fire)
	}()
}

//go:noinline
func leaf(until time.Time) uint64 {
	x := uint64(1)
	for time.Now().Before(until) && atomic.LoadInt64(&over) == 0 {
		for atomic.LoadInt64(&firings) > 0 && atomic.AddInt64(&firings, -1) >= 0 {
			os.Getppid()
			atomic.StoreInt64(&over, 1)
		}
		for i := 0; i < 100000; i++ {
			x = x*6364136223846793005 + 1
		}
	}
	return x
}

//go:noinline
func (b *burrow) dig(depth int, until time.Time) uint64 {
	if depth == 0 {
		return leaf(until) + 1
	}
	return b.dig(depth-1, until) + uint64(depth)
}

var rubbish [512][]*burrow

//go:noinline
func litter(until time.Time) {
	for i := 0; time.Now().Before(until); i++ {
		var made []*burrow
		for j := 0; j < 200; j++ {
			made = append(made, &burrow{j})
		}
		rubbish[i%len(rubbish)] = made
	}
}

//go:noinline
func deepen(depth int) int {
	var room [64]int
	if depth == 0 {
		return room[depth%64]
	}
	return deepen(depth-1) + room[depth%64] + 1
}

//go:noinline
func grow(depth int, grown chan int) {
	grown <- deepen(depth)
}

func churn(until time.Time) {
	balls := make(chan int)
	for i := 0; i < 4; i++ {
		go litter(until)
		go func() {
			grown := make(chan int)
			for ball := range balls {
				go grow(ball%300, grown)
				<-grown
			}
		}()
	}
	for i := 0; time.Now().Before(until); i++ {
		balls <- i
	}
}

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	if fire, err := strconv.ParseInt(os.Getenv("WORKLOAD_FIRE"), 10, 64); err == nil {
		waitToFire(fire)
	}
	stack := "stack main.main.func1"
	for i := 0; i < 6; i++ {
		stack += ";main.(*burrow).dig"
	}
	fmt.Printf("%s;main.leaf\npid %d\nready\n", stack, os.Getpid())
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	if len(os.Args) > 2 && os.Args[2] == "churn" {
		churn(until)
		return
	}
	var all sync.WaitGroup
	for i := 0; i < 2; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			b := &burrow{5}
			if b.dig(5, until) == 0 {
				fmt.Println("unlikely")
			}
		}()
	}
	all.Wait()
}
