// Grows without an end, by a mebibyte every 20 ms.
package main

import "time"

var kept [][]byte

//go:noinline
func appendRows() {
	rows := make([]byte, 1<<20)
	for i := range rows {
		rows[i] = 1
	}
	kept = append(kept, rows)
}

func main() {
	for {
		appendRows()
		time.Sleep(20 * time.Millisecond)
	}
}
