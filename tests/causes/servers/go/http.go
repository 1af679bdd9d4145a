//go:build !grpc

// Go's net/http: a goroutine for each connection, or each stream of HTTP/2, which needs TLS.
package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		one := handle(r.URL)
		w.Header().Set("Content-Length", "2")
		io.WriteString(w, "ok")
		w.(http.Flusher).Flush()
		record(one)
	})
	address, certificate := "127.0.0.1:"+os.Args[1], os.Getenv("CERTIFICATE")
	if certificate == "" {
		panic(http.ListenAndServe(address, handler))
	}
	panic(http.ListenAndServeTLS(address, certificate, certificate, handler))
}
