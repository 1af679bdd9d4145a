// Package main prints what OpenTelemetry's eBPF profiler reads of a process's context (OTEP 4719), using the profiler's own packages to scan the
// mappings, select the context's mapping and read its memory.
//
//	process-context PID
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"

	"go.opentelemetry.io/ebpf-profiler/libpf"
	"go.opentelemetry.io/ebpf-profiler/process"
	"go.opentelemetry.io/ebpf-profiler/processcontext"
	"google.golang.org/protobuf/encoding/protojson"
)

func contextOf(pid libpf.PID) (processcontext.Info, error) {
	of := process.New(pid, pid)
	defer of.Close()
	var address libpf.Address
	_, err := of.IterateMappings(func(mapping process.RawMapping) bool {
		if processcontext.IsContextMapping(mapping.IsExecutable(), mapping.Path) {
			address = libpf.Address(mapping.Vaddr)
		}
		return address == 0
	})
	if err != nil && !errors.Is(err, process.ErrCallbackStopped) {
		return processcontext.Info{}, err
	}
	if address == 0 {
		return processcontext.Info{}, errors.New("no mapping is a context's")
	}
	return processcontext.Read(address, of.GetRemoteMemory(), 0, 0)
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 2 {
		log.Fatal("usage: process-context PID")
	}
	pid, err := strconv.ParseUint(os.Args[1], 10, 32)
	if err != nil {
		log.Fatal(err)
	}
	info, err := contextOf(libpf.PID(pid))
	if err != nil {
		log.Fatal(err)
	}
	text, err := protojson.Marshal(info.Context)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("{\"publishedAtNs\": %d, \"context\": %s}\n", info.PublishedAtNs, text)
}
