// An OpenTelemetry Collector built from its official modules, for comparing the sent packets in tests/e2e/test_collector.py: otlpreceiver
// receives it, and pdata's own marshaler writes it to a file, one JSON object per line. Only the exporter in between is ours. Another exporter writes
// the names that metrics get in Prometheus, by the translator that Prometheus and the official exporters for it use.
//
//	collector --config=FILE
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"sync"

	"github.com/prometheus/otlptranslator"
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
const names = "names"

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

func translatedType(metric pmetric.Metric) otlptranslator.MetricType {
	switch metric.Type() {
	case pmetric.MetricTypeSum:
		if metric.Sum().IsMonotonic() {
			return otlptranslator.MetricTypeMonotonicCounter
		}
		return otlptranslator.MetricTypeNonMonotonicCounter
	case pmetric.MetricTypeGauge:
		return otlptranslator.MetricTypeGauge
	case pmetric.MetricTypeHistogram:
		return otlptranslator.MetricTypeHistogram
	}
	return otlptranslator.MetricTypeUnknown
}

// The names of each metric in Prometheus, with and without escaping.
func translatedNames(metric pmetric.Metric) ([]string, error) {
	var found []string
	for _, strategy := range []otlptranslator.TranslationStrategyOption{otlptranslator.UnderscoreEscapingWithSuffixes, otlptranslator.NoUTF8EscapingWithSuffixes} {
		namer := otlptranslator.NewMetricNamer("", strategy)
		name, err := namer.Build(otlptranslator.Metric{Name: metric.Name(), Unit: metric.Unit(), Type: translatedType(metric)})
		if err != nil {
			return nil, err
		}
		found = append(found, name)
	}
	return found, nil
}

func newNames(ctx context.Context, settings exporter.Settings, config component.Config) (exporter.Metrics, error) {
	return exporterhelper.NewMetrics(ctx, settings, config, func(_ context.Context, metrics pmetric.Metrics) error {
		all := map[string][]string{}
		for _, resource := range metrics.ResourceMetrics().All() {
			for _, scope := range resource.ScopeMetrics().All() {
				for _, metric := range scope.Metrics().All() {
					found, err := translatedNames(metric)
					if err != nil {
						return err
					}
					all[metric.Name()] = found
				}
			}
		}
		line, err := json.Marshal(all)
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
	toNames := exporter.NewFactory(component.MustNewType(names), func() component.Config { return &linesConfig{} },
		exporter.WithMetrics(newNames, component.StabilityLevelDevelopment))
	return otelcol.Factories{
		Receivers: map[component.Type]receiver.Factory{component.MustNewType(otlp): otlpreceiver.NewFactory()},
		Exporters: map[component.Type]exporter.Factory{component.MustNewType(lines): toLines, component.MustNewType(names): toNames},
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
