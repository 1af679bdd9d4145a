//go:build grpc

// grpc-go: a goroutine for each call; another one of the connection writes the replies. A call's message is the target.
package main

import (
	"net"
	"net/url"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

type plain struct{}

func (plain) Name() string { return "plain" }

func (plain) Marshal(message any) ([]byte, error) { return *message.(*[]byte), nil }

func (plain) Unmarshal(data []byte, message any) error {
	*message.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// Serves every method.
func serve(_ any, call grpc.ServerStream) error {
	var request []byte
	if err := call.RecvMsg(&request); err != nil {
		return err
	}
	target, err := url.Parse(string(request))
	if err != nil {
		return err
	}
	one, reply := handle(target), []byte("ok")
	defer record(one)
	return call.SendMsg(&reply)
}

func main() {
	listener, err := net.Listen("tcp4", "127.0.0.1:"+os.Args[1])
	if err != nil {
		panic(err)
	}
	options := []grpc.ServerOption{grpc.ForceServerCodec(plain{}), grpc.UnknownServiceHandler(serve)}
	if certificate := os.Getenv("CERTIFICATE"); certificate != "" {
		secure, err := credentials.NewServerTLSFromFile(certificate, certificate)
		if err != nil {
			panic(err)
		}
		options = append(options, grpc.Creds(secure))
	}
	panic(grpc.NewServer(options...).Serve(listener))
}
