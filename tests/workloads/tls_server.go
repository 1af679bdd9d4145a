// A server of net/http over TLS, which speaks HTTP/2 and HTTP/1: `tls_server CERTIFICATE KEY`. Prints its port.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

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
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	panic(http.ServeTLS(listener, nil, os.Args[1], os.Args[2]))
}
