{{- define "grantkeeper.labels" -}}
{{ include "grantkeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "grantkeeper.selector" -}}
app.kubernetes.io/name: grantkeeper
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "grantkeeper.name" -}}
{{- if contains "grantkeeper" .Release.Name }}{{ .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}{{ printf "%s-grantkeeper" .Release.Name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
