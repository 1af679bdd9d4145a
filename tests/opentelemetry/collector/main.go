// An OpenTelemetry Collector built from its official modules, with which tests/e2e/test_collector.py compares what was sent: otlpreceiver
// receives it, and pdata's own marshaler writes it to a file, one JSON object per line. Only the exporter in between is ours.
//
//	collector --config=FILE
package main

import (
	"context"
	"log"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
	"go.opentelemetry.io/collector/exporter/xexporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/pprofile"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

const otlp = "otlp"
const lines = "lines"

type linesConfig struct {
	Path string `mapstructure:"path"`
}

// Shared by all pipelines, which may write to the same file.
var writing sync.Mutex

func appendLine(path string, line []byte) error {
	writing.Lock()
	defer writing.Unlock()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// Without a queue: a client gets its response after the line was written.
func newTraces(ctx context.Context, settings exporter.Settings, config component.Config) (exporter.Traces, error) {
	return exporterhelper.NewTraces(ctx, settings, config, func(_ context.Context, traces ptrace.Traces) error {
		line, err := (&ptrace.JSONMarshaler{}).MarshalTraces(traces)
		if err != nil {
			return err
		}
		return appendLine(config.(*linesConfig).Path, line)
	})
}

func newMetrics(ctx context.Context, settings exporter.Settings, config component.Config) (exporter.Metrics, error) {
	return exporterhelper.NewMetrics(ctx, settings, config, func(_ context.Context, metrics pmetric.Metrics) error {
		line, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(metrics)
		if err != nil {
			return err
		}
		return appendLine(config.(*linesConfig).Path, line)
	})
}

// Profiles are in development there as well: the exporter helper for them is a module of its own, which would do no more than this.
type profileLines struct {
	component.StartFunc
	component.ShutdownFunc
	path string
}

func (p *profileLines) Capabilities() consumer.Capabilities {
	return consumer.Capabilities{}
}

func (p *profileLines) ConsumeProfiles(_ context.Context, profiles pprofile.Profiles) error {
	line, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(profiles)
	if err != nil {
		return err
	}
	return appendLine(p.path, line)
}

func newProfiles(_ context.Context, _ exporter.Settings, config component.Config) (xexporter.Profiles, error) {
	return &profileLines{path: config.(*linesConfig).Path}, nil
}

func factories() (otelcol.Factories, error) {
	toLines := xexporter.NewFactory(component.MustNewType(lines), func() component.Config { return &linesConfig{} },
		xexporter.WithTraces(newTraces, component.StabilityLevelDevelopment),
		xexporter.WithMetrics(newMetrics, component.StabilityLevelDevelopment),
		xexporter.WithProfiles(newProfiles, component.StabilityLevelDevelopment))
	return otelcol.Factories{
		Receivers: map[component.Type]receiver.Factory{component.MustNewType(otlp): otlpreceiver.NewFactory()},
		Exporters: map[component.Type]exporter.Factory{component.MustNewType(lines): toLines},
		Telemetry: otelconftelemetry.NewFactory(),
	}, nil
}

func main() {
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Description: "OpenTelemetry Collector of Sonde's tests", Version: "0.150.0"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()}, DefaultScheme: "file"}},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
