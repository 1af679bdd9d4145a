// A server and a client of grpc-go whose messages are plain bytes:
//
//	grpc_go serve PORT                on any port if 0; prints "port N". /test.Service/Echo replies at once, Sleep after 20 ms, and Fail with status NOT_FOUND.
//	grpc_go call PORT METHOD COUNT    COUNT calls, ten at a time on one connection, once that is ready. Prints for each its status and its duration in ns.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const atOnce = 10

type plain struct{}

func (plain) Name() string { return "plain" }

func (plain) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (plain) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func method(name string, reply func([]byte) ([]byte, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name, Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
		var request []byte
		if err := decode(&request); err != nil {
			return nil, err
		}
		data, err := reply(request)
		return &data, err
	}}
}

func serve(port string) {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+port)
	must(err)
	server := grpc.NewServer(grpc.ForceServerCodec(plain{}))
	server.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Service", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
		method("Echo", func(request []byte) ([]byte, error) { return request, nil }),
		method("Sleep", func(request []byte) ([]byte, error) { time.Sleep(20 * time.Millisecond); return request, nil }),
		method("Fail", func([]byte) ([]byte, error) { return nil, status.Error(codes.NotFound, "no such thing") }),
	}}, struct{}{})
	fmt.Println("port", listener.Addr().(*net.TCPAddr).Port)
	must(server.Serve(listener))
}

func call(port, method, count string) {
	connection, err := grpc.NewClient("127.0.0.1:"+port, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodec(plain{})))
	must(err)
	for connection.Connect(); connection.GetState() != connectivity.Ready; {
		connection.WaitForStateChange(context.Background(), connection.GetState())
	}
	left, err := strconv.Atoi(count)
	must(err)
	calls := make(chan struct{})
	var callers sync.WaitGroup
	for range atOnce {
		callers.Go(func() {
			for range calls {
				request, reply := []byte("hello"), []byte(nil)
				began := time.Now()
				err := connection.Invoke(context.Background(), "/test.Service/"+method, &request, &reply)
				fmt.Println(int(status.Code(err)), time.Since(began).Nanoseconds())
			}
		})
	}
	for ; left > 0; left-- {
		calls <- struct{}{}
	}
	close(calls)
	callers.Wait()
}

func main() {
	if os.Args[1] == "serve" {
		serve(os.Args[2])
	} else {
		call(os.Args[2], os.Args[3], os.Args[4])
	}
}
