// Lints and renders a Helm chart as `helm` does, and decodes each object as strictly as the API server: no unknown field, none twice, each of its
// type. `check CHART [VALUES.yaml]` prints the rendered objects; `check -objects FILE` only decodes.
package main

import (
	"fmt"
	"os"
	"sort"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
)

const namespace = "sonde"

func fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, "check: "+format+"\n", arguments...)
	os.Exit(1)
}

func lintChart(path string, values map[string]any) {
	for _, message := range lint.All(path, values, namespace, true).Messages {
		if message.Severity >= support.WarningSev {
			fail("%s", message)
		}
	}
}

func render(path string, values map[string]any) []string {
	chart, err := loader.Load(path)
	if err != nil {
		fail("%s: %v", path, err)
	}
	options := chartutil.ReleaseOptions{Name: "sonde", Namespace: namespace, IsInstall: true, Revision: 1}
	capabilities := chartutil.DefaultCapabilities.Copy()
	if version := os.Getenv("KUBE_VERSION"); version != "" {
		parsed, err := chartutil.ParseKubeVersion(version)
		if err != nil {
			fail("%v", err)
		}
		capabilities.KubeVersion = *parsed
	}
	all, err := chartutil.ToRenderValues(chart, values, options, capabilities)
	if err != nil {
		fail("%v", err)
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		fail("%v", err)
	}
	names := make([]string, 0, len(files))
	for name := range files {
		if !strings.HasSuffix(name, "NOTES.txt") {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	var texts []string
	for _, name := range names {
		texts = append(texts, split(files[name])...)
	}
	return texts
}

func split(text string) []string {
	var objects []string
	parts := releaseutil.SplitManifests(text)
	keys := make([]string, 0, len(parts))
	for key := range parts {
		keys = append(keys, key)
	}
	sort.Sort(releaseutil.BySplitManifestsOrder(keys))
	for _, key := range keys {
		objects = append(objects, strings.TrimSpace(parts[key])+"\n")
	}
	return objects
}

func decode(objects []string) {
	if err := monitoring.AddToScheme(scheme.Scheme); err != nil {
		fail("%v", err)
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme, json.SerializerOptions{Yaml: true, Strict: true})
	for _, object := range objects {
		if _, _, err := strict.Decode([]byte(object), nil, nil); err != nil {
			fail("%v in\n%s", err, object)
		}
	}
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "-objects" {
		text, err := os.ReadFile(os.Args[2])
		if err != nil {
			fail("%v", err)
		}
		decode(split(string(text)))
		return
	}
	if len(os.Args) < 2 {
		fail("usage: check CHART [VALUES.yaml], or check -objects FILE")
	}
	values := map[string]any{}
	if len(os.Args) > 2 {
		read, err := chartutil.ReadValuesFile(os.Args[2])
		if err != nil {
			fail("%v", err)
		}
		values = read
	}
	lintChart(os.Args[1], values)
	objects := render(os.Args[1], values)
	decode(objects)
	fmt.Print("---\n" + strings.Join(objects, "---\n"))
}
