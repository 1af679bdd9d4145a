// A server of net/http over TLS, which speaks HTTP/2 and HTTP/1: `tls_server CERTIFICATE KEY`. Prints its port.
//
// For /reused it calls itself: it begins HTTP/2 on a connection and closes it, and asks for /of/reused over HTTP/1 on
// another connection, whose tls.Conn is at the address of the first one's.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"

func dial(address, protocol string) *tls.Conn {
	conn, err := tls.Dial("tcp4", address, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}})
	if err != nil {
		panic(err)
	}
	return conn
}

// Returns the beginning of what the server sends first.
func ask(conn *tls.Conn, text string) string {
	reply := make([]byte, 100)
	io.WriteString(conn, text)
	n, err := conn.Read(reply)
	if err != nil {
		panic(err)
	}
	return string(reply[:n])
}

func reuse(address string) string {
	conn := dial(address, "h2")
	ask(conn, preface)
	conn.Close()
	*conn = *dial(address, "http/1.1") // after its handshake, whose function knows the other address
	defer conn.Close()
	return ask(conn, "GET /of/reused HTTP/1.1\r\nHost: a\r\n\r\n")
}

var lock sync.Mutex

// Waits for a goroutine that takes the lock and keeps it while it sleeps, and then for the lock.
func waitForLock() {
	held := make(chan bool)
	go func() {
		lock.Lock()
		close(held)
		time.Sleep(100 * time.Millisecond)
		lock.Unlock()
	}()
	<-held
	lock.Lock()
	lock.Unlock()
}

func main() {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	http.HandleFunc("/of/", func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, "ok")
	})
	http.HandleFunc("/large", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 50_000))
	})
	http.HandleFunc("/sleep", func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(100 * time.Millisecond)
		fmt.Fprint(w, "ok")
	})
	http.HandleFunc("/lock", func(w http.ResponseWriter, r *http.Request) {
		waitForLock()
		fmt.Fprint(w, "ok")
	})
	http.HandleFunc("/reused", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, reuse(listener.Addr().String()))
	})
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.ServeTLS(listener, nil, os.Args[1], os.Args[2]))
}
