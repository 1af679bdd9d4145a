// A stream of tokens for each request, by net/http: the header and the first event go out together.
// `tokens [CERTIFICATE KEY]`: with these, over TLS.
package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

const tokens = 8

func stream(reply http.ResponseWriter, request *http.Request) {
	io.Copy(io.Discard, request.Body)
	reply.Header().Set("Content-Type", "text/event-stream")
	for n := 0; n < tokens; n++ {
		time.Sleep(10 * time.Millisecond)
		fmt.Fprintf(reply, "data: {\"choices\":[{\"delta\":{\"content\":\"tok%d\"}}]}\n\n", n)
		reply.(http.Flusher).Flush()
	}
	fmt.Fprint(reply, "data: [DONE]\n\n")
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	if len(os.Args) == 3 {
		server := &http.Server{Handler: http.HandlerFunc(stream), TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
		panic(server.ServeTLS(listener, os.Args[1], os.Args[2])) // without HTTP/2
	}
	panic(http.Serve(listener, http.HandlerFunc(stream)))
}
