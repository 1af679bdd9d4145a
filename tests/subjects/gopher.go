// Go frames: goroutines on stacks of their own, methods and closures. `gopher [SECONDS]`
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

type burrow struct{ depth int }

//go:noinline
func leaf(until time.Time) uint64 {
	x := uint64(1)
	for time.Now().Before(until) {
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

func main() {
	seconds := 5.0
	if len(os.Args) > 1 {
		seconds, _ = strconv.ParseFloat(os.Args[1], 64)
	}
	stack := "stack main.main.func1"
	for i := 0; i < 6; i++ {
		stack += ";main.(*burrow).dig"
	}
	fmt.Printf("%s;main.leaf\npid %d\nready\n", stack, os.Getpid())
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
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
