// Package main speaks OpAMP over HTTP with OpenTelemetry's own packages, as the judge of both of Sonde's sides.
//
//	opamp server ADDRESS:PORT       prints each message of an agent as a line of JSON; asks for everything in the answer to the third
//	opamp client URL HOST           reports as an agent on HOST, until it ends; prints "connected" at each answer
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/open-telemetry/opamp-go/client"
	clienttypes "github.com/open-telemetry/opamp-go/client/types"
	"github.com/open-telemetry/opamp-go/protobufs"
	"github.com/open-telemetry/opamp-go/server"
	servertypes "github.com/open-telemetry/opamp-go/server/types"
	"google.golang.org/protobuf/encoding/protojson"
)

type logger struct{}

func (logger) Debugf(context.Context, string, ...any) {}
func (logger) Errorf(_ context.Context, format string, v ...any) {
	log.Printf(format, v...)
}

func serve(address string) (func(), error) {
	messages := 0
	callbacks := servertypes.ConnectionCallbacks{
		OnMessage: func(_ context.Context, _ servertypes.Connection, message *protobufs.AgentToServer) *protobufs.ServerToAgent {
			text, err := protojson.Marshal(message)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(string(text))
			answer := &protobufs.ServerToAgent{InstanceUid: message.InstanceUid}
			if messages++; messages == 3 {
				answer.Flags = uint64(protobufs.ServerToAgentFlags_ServerToAgentFlags_ReportFullState)
			}
			return answer
		},
	}
	one := server.New(logger{})
	settings := server.StartSettings{ListenEndpoint: address, Settings: server.Settings{Callbacks: servertypes.Callbacks{
		OnConnecting: func(*http.Request) servertypes.ConnectionResponse {
			return servertypes.ConnectionResponse{Accept: true, ConnectionCallbacks: callbacks}
		}}}}
	return func() { _ = one.Stop(context.Background()) }, one.Start(settings)
}

func attribute(key, value string) *protobufs.KeyValue {
	return &protobufs.KeyValue{Key: key, Value: &protobufs.AnyValue{Value: &protobufs.AnyValue_StringValue{StringValue: value}}}
}

func report(url, host string) (func(), error) {
	one := client.NewHTTP(logger{})
	description := &protobufs.AgentDescription{
		IdentifyingAttributes:    []*protobufs.KeyValue{attribute("service.name", "other"), attribute("service.version", "7")},
		NonIdentifyingAttributes: []*protobufs.KeyValue{attribute("host.name", host), attribute("os.version", "5.10")},
	}
	if err := one.SetAgentDescription(description); err != nil {
		return nil, err
	}
	if err := one.SetHealth(&protobufs.ComponentHealth{Healthy: false, LastError: "out of order", Status: "broken"}); err != nil {
		return nil, err
	}
	capabilities := protobufs.AgentCapabilities_AgentCapabilities_ReportsStatus | protobufs.AgentCapabilities_AgentCapabilities_ReportsHealth |
		protobufs.AgentCapabilities_AgentCapabilities_ReportsEffectiveConfig
	if err := one.SetCapabilities(&capabilities); err != nil {
		return nil, err
	}
	interval := time.Second
	settings := clienttypes.StartSettings{
		OpAMPServerURL: url, InstanceUid: clienttypes.InstanceUid(uuid.New()), EnableCompression: true, HeartbeatInterval: &interval,
		Callbacks: clienttypes.Callbacks{
			OnConnect:       func(context.Context) { fmt.Println("connected") },
			OnConnectFailed: func(_ context.Context, err error) { log.Print(err) },
			GetEffectiveConfig: func(context.Context) (*protobufs.EffectiveConfig, error) {
				files := map[string]*protobufs.AgentConfigFile{"": {Body: []byte("receivers:\n"), ContentType: "text/yaml"}}
				return &protobufs.EffectiveConfig{ConfigMap: &protobufs.AgentConfigMap{ConfigMap: files}}, nil
			},
		},
	}
	return func() { _ = one.Stop(context.Background()) }, one.Start(context.Background(), settings)
}

func main() {
	log.SetFlags(0)
	var stop func()
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == "server":
		stop, err = serve(os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "client":
		stop, err = report(os.Args[2], os.Args[3])
	default:
		log.Fatal("usage: opamp server ADDRESS:PORT | opamp client URL HOST")
	}
	if err != nil {
		log.Fatal(err)
	}
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGINT, syscall.SIGTERM)
	<-ends
	stop()
}
