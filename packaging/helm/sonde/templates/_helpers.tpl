{{- define "sonde.selector" -}}
app.kubernetes.io/name: sonde
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sonde.labels" -}}
{{ include "sonde.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end }}

{{- define "sonde.tokenSecret" -}}
{{ .Values.token.secretName | default (printf "%s-token" .Release.Name) }}
{{- end }}

{{- define "sonde.scheme" -}}
{{ if .Values.tls.secretName }}https{{ else }}http{{ end }}
{{- end }}

{{- define "sonde.listen" -}}
{{ .Values.page.listen | default (ternary "0.0.0.0" "127.0.0.1" (not (empty .Values.tls.secretName))) }}
{{- end }}
