// Converts samples exported by Sonde into packets of OpenTelemetry's eBPF profiler, to compare sizes: its own reporter (reporter.CollectorReporter)
// receives each sample again and builds packets from them.
//
//	profiler-wire [-names] [-window 5s] [-step NS] PACKET...
//	profiler-wire -bare PACKET...
//
// PACKET is a file with the body of a POST, uncompressed. By default samples stay in their original packets; -window regroups them by time.
// Timestamps come from the packets; their rounding favours the reporter; -step adds a random number of ns below the step. The reporter gets what
// its own profiler would give it: native frames without names, which it leaves to a backend (-names keeps the names), with the file's build id and
// its hash; kernel and interpreter frames with names; of the thread, its name and id, and always the same CPU, which favours it too; no service, no
// host. Its stack hash does not distinguish Python frames: here they are distinguished by line, as it would merge different samples otherwise.
//
// With -bare, the packets are Sonde's own without the names of native functions and everything used only by these: what Sonde needs for the same
// content as that profiler.
//
// Prints one line: packets, samples, bytes, and bytes after gzip, which gRPC uses.
package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5"
	"flag"
	"fmt"
	"log"
	"math/rand"
	"os"
	"sort"
	"time"

	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/pprofile/pprofileotlp"
	"go.opentelemetry.io/ebpf-profiler/libpf"
	"go.opentelemetry.io/ebpf-profiler/reporter"
	"go.opentelemetry.io/ebpf-profiler/reporter/samples"
)

var cpuTime = &samples.TypeMetadata{PeriodType: "cpu", PeriodUnit: "nanoseconds", SampleType: "samples", SampleUnit: "count"}

type event struct {
	trace *libpf.Trace
	meta  *samples.TraceEventMeta
}

// sink receives the single packet of a reporter.
type sink chan pprofile.Profiles

func (s sink) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (s sink) ConsumeProfiles(_ context.Context, p pprofile.Profiles) error {
	s <- p
	return nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// attribute returns the string and the number of the attribute with this key; "" and 0 without.
func attribute(d pprofile.ProfilesDictionary, indices pcommon.Int32Slice, key string) (text string, number int64) {
	for _, at := range indices.All() {
		if a := d.AttributeTable().At(int(at)); d.StringTable().At(int(a.KeyStrindex())) == key {
			return a.Value().Str(), a.Value().Int()
		}
	}
	return "", 0
}

func frameOf(d pprofile.ProfilesDictionary, l pprofile.Location, names bool) *libpf.Frame {
	text := func(at int32) libpf.String { return libpf.Intern(d.StringTable().At(int(at))) }
	kind, _ := attribute(d, l.AttributeIndices(), "profile.frame.type")
	frame := &libpf.Frame{Type: libpf.FrameTypeFromString(kind), AddressOrLineno: libpf.AddressOrLineno(l.Address())}
	if m := d.MappingTable().At(int(l.MappingIndex())); l.MappingIndex() > 0 {
		build, _ := attribute(d, m.AttributeIndices(), "process.executable.build_id.gnu")
		name := text(m.FilenameStrindex())
		sum := md5.Sum([]byte(name.String() + build))
		id, err := libpf.FileIDFromBytes(sum[:])
		must(err)
		file := libpf.NewFrameMappingFile(libpf.FrameMappingFileData{FileID: id, FileName: name, GnuBuildID: build})
		frame.Mapping = libpf.NewFrameMapping(libpf.FrameMappingData{File: file, Start: libpf.Address(m.MemoryStart()),
			End: libpf.Address(m.MemoryLimit()), FileOffset: m.FileOffset()})
	}
	if l.Lines().Len() > 0 && (names || kind != "native") {
		line := l.Lines().At(0)
		f := d.FunctionTable().At(int(line.FunctionIndex()))
		frame.FunctionName, frame.SourceFile, frame.SourceLine = text(f.NameStrindex()), text(f.FilenameStrindex()), libpf.SourceLineno(line.Line())
		if kind != "native" && kind != "kernel" {
			frame.AddressOrLineno = libpf.AddressOrLineno(line.Line())
		}
	}
	return frame
}

func eventsOf(p pprofile.Profiles, names bool, step int64) (events []event) {
	finer := rand.New(rand.NewSource(1))
	d := p.Dictionary()
	traces := map[int32]*libpf.Trace{}
	traceOf := func(stack int32) *libpf.Trace {
		if traces[stack] == nil {
			trace := &libpf.Trace{}
			for _, at := range d.StackTable().At(int(stack)).LocationIndices().All() {
				trace.Frames.Append(frameOf(d, d.LocationTable().At(int(at)), names))
			}
			traces[stack] = trace
		}
		return traces[stack]
	}
	for _, r := range p.ResourceProfiles().All() {
		path, _ := r.Resource().Attributes().Get("process.executable.path")
		pid, _ := r.Resource().Attributes().Get("process.pid")
		container, _ := r.Resource().Attributes().Get("container.id")
		str := func(v pcommon.Value) libpf.String {
			if v == (pcommon.Value{}) {
				return libpf.NullString
			}
			return libpf.Intern(v.Str())
		}
		for _, s := range r.ScopeProfiles().All() {
			for _, profile := range s.Profiles().All() {
				for _, sample := range profile.Samples().All() {
					name, _ := attribute(d, sample.AttributeIndices(), "thread.name")
					_, tid := attribute(d, sample.AttributeIndices(), "thread.id")
					for _, at := range sample.TimestampsUnixNano().All() {
						events = append(events, event{traceOf(sample.StackIndex()), &samples.TraceEventMeta{
							Comm: libpf.NewCommFromString(name), ExecutablePath: str(path), ContainerID: str(container), Timestamp: libpf.UnixTime64(at + uint64(finer.Int63n(step))),
							PID: libpf.PID(pid.Int()), TID: libpf.PID(tid), ProfileType: cpuTime, Value: 1}})
					}
				}
			}
		}
	}
	return events
}

// bare removes the names of native functions from a packet, and table entries that are no longer referenced; returns the number of samples.
func bare(p pprofile.Profiles) int {
	d, old := p.Dictionary(), []string{}
	for _, l := range d.LocationTable().All() {
		if kind, _ := attribute(d, l.AttributeIndices(), "profile.frame.type"); kind == "native" {
			l.Lines().RemoveIf(func(pprofile.Line) bool { return true })
		}
	}
	functions := map[int32]int32{0: 0}
	for _, l := range d.LocationTable().All() {
		for _, line := range l.Lines().All() {
			functions[line.FunctionIndex()] = 0
		}
	}
	at, kept := int32(-1), int32(0)
	d.FunctionTable().RemoveIf(func(pprofile.Function) bool {
		at++
		if _, used := functions[at]; used {
			functions[at] = kept
			kept++
			return false
		}
		return true
	})
	for _, l := range d.LocationTable().All() {
		for _, line := range l.Lines().All() {
			line.SetFunctionIndex(functions[line.FunctionIndex()])
		}
	}
	for _, text := range d.StringTable().All() {
		old = append(old, text)
	}
	texts := map[string]int32{"": 0}
	d.StringTable().FromRaw([]string{""})
	text := func(at int32) int32 {
		if _, there := texts[old[at]]; !there {
			texts[old[at]] = int32(d.StringTable().Len())
			d.StringTable().Append(old[at])
		}
		return texts[old[at]]
	}
	for _, m := range d.MappingTable().All() {
		m.SetFilenameStrindex(text(m.FilenameStrindex()))
	}
	for _, f := range d.FunctionTable().All() {
		f.SetNameStrindex(text(f.NameStrindex()))
		f.SetSystemNameStrindex(text(f.SystemNameStrindex()))
		f.SetFilenameStrindex(text(f.FilenameStrindex()))
	}
	for _, a := range d.AttributeTable().All() {
		a.SetKeyStrindex(text(a.KeyStrindex()))
		a.SetUnitStrindex(text(a.UnitStrindex()))
	}
	count := 0
	for _, r := range p.ResourceProfiles().All() {
		for _, s := range r.ScopeProfiles().All() {
			for _, profile := range s.Profiles().All() {
				for _, t := range []pprofile.ValueType{profile.SampleType(), profile.PeriodType()} {
					t.SetTypeStrindex(text(t.TypeStrindex()))
					t.SetUnitStrindex(text(t.UnitStrindex()))
				}
				for _, sample := range profile.Samples().All() {
					count += sample.TimestampsUnixNano().Len()
				}
			}
		}
	}
	return count
}

// packetOf returns the packet that a reporter sends for these events.
func packetOf(events []event) []byte {
	out := make(sink)
	r, err := reporter.NewCollector(&reporter.Config{Name: "otel-ebpf-profiler", Version: "0", SamplesPerSecond: 99, ReportInterval: time.Millisecond}, out)
	must(err)
	for _, e := range events {
		must(r.ReportTraceEvent(e.trace, e.meta))
	}
	must(r.Start(context.Background()))
	p := <-out
	r.Stop()
	return marshaled(p)
}

func marshaled(p pprofile.Profiles) []byte {
	packet, err := pprofileotlp.NewExportRequestFromProfiles(p).MarshalProto()
	must(err)
	return packet
}

// byWindow regroups the events of all packets by time.
func byWindow(packets [][]event, window time.Duration) (found [][]event) {
	var all []event
	for _, packet := range packets {
		all = append(all, packet...)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].meta.Timestamp < all[j].meta.Timestamp })
	for begin, i := 0, 1; i <= len(all); i++ {
		if i == len(all) || time.Duration(all[i].meta.Timestamp-all[begin].meta.Timestamp) >= window {
			found, begin = append(found, all[begin:i]), i
		}
	}
	return found
}

type sum struct{ packets, samples, plain, compressed int }

func (s *sum) add(samples int, packet []byte) {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, err := z.Write(packet)
	must(err)
	must(z.Close())
	*s = sum{s.packets + 1, s.samples + samples, s.plain + len(packet), s.compressed + out.Len()}
}

func main() {
	names := flag.Bool("names", false, "keep the names of native frames")
	ours := flag.Bool("bare", false, "Sonde's own packets, without names of native frames")
	window := flag.Duration("window", 0, "time window of a packet; 0: keep the packets as they are")
	step := flag.Int64("step", 1, "resolution of the timestamps in ns, below which random digits are added")
	flag.Parse()
	var packets [][]event
	var sizes sum
	for _, path := range flag.Args() {
		data, err := os.ReadFile(path)
		must(err)
		request := pprofileotlp.NewExportRequest()
		must(request.UnmarshalProto(data))
		p := request.Profiles()
		if *ours {
			count := bare(p)
			sizes.add(count, marshaled(p))
		} else if events := eventsOf(p, *names, *step); len(events) > 0 {
			packets = append(packets, events)
		}
	}
	if *window > 0 {
		packets = byWindow(packets, *window)
	}
	for _, events := range packets {
		sizes.add(len(events), packetOf(events))
	}
	fmt.Println(sizes.packets, sizes.samples, sizes.plain, sizes.compressed)
}
