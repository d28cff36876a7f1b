{{/* The name of the server's objects: the name of the release, with "queuegate" unless it contains that. */}}
{{- define "queuegate.server" -}}
{{- if contains "queuegate" .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-queuegate" .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The name of the webhook's objects. */}}
{{- define "queuegate.webhook" -}}
{{ include "queuegate.server" . }}-admission
{{- end -}}

{{/* The name of Valkey's objects. */}}
{{- define "queuegate.valkey" -}}
{{ include "queuegate.server" . }}-valkey
{{- end -}}

{{- define "queuegate.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end -}}

{{/* The labels that select pods; the argument is a list: the root, and queuegate, queuegate-admission or
queuegate-valkey. */}}
{{- define "queuegate.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end -}}

{{- define "queuegate.labels" -}}
{{- $root := index . 0 -}}
{{ include "queuegate.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version }}
{{- end -}}

{{/* The fields that the pods of both servers share; the argument is a list: the root, the name as
above, and the values of the part. */}}
{{- define "queuegate.pod" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with (index . 2).pod }}
{{ toYaml . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  # May read the key.
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels: {{- include "queuegate.selector" . | nindent 8 }}
{{- end -}}

{{- define "queuegate.container" -}}
{{- $root := index . 0 -}}
image: {{ include "queuegate.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
resources: {{- toYaml (index . 2).resources | nindent 2 }}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- end -}}

{{- define "queuegate.volumeMounts" -}}
- {name: yunikorn-defaults, mountPath: /etc/yunikorn/defaults, readOnly: true}
- {name: yunikorn-configs, mountPath: /etc/yunikorn/configs, readOnly: true}
{{- range $number, $mount := .mounts }}
- {name: mount-{{ $number }}, mountPath: {{ quote $mount.path }}, readOnly: true}
{{- end }}
{{- end -}}

{{/* The argument is a list: the name of the ConfigMap that replaces yunikorn-configs, the root, and the
values of the part. */}}
{{- define "queuegate.volumes" -}}
- name: yunikorn-defaults
  configMap: {name: yunikorn-defaults, optional: true}
- name: yunikorn-configs
  configMap: {name: {{ index . 0 }}, optional: true}
{{- range $number, $mount := (index . 2).mounts }}
- name: mount-{{ $number }}
  {{- if $mount.secret }}
  secret: {secretName: {{ $mount.secret }}, defaultMode: 0440}
  {{- else if $mount.token }}
  projected:
    sources:
      - serviceAccountToken: {audience: {{ quote $mount.token }}, path: token}
  {{- else }}
  configMap: {name: {{ $mount.configMap }}}
  {{- end }}
{{- end }}
{{- end -}}

{{/* Not empty if a pod of the chart issues the webhook's certificate. */}}
{{- define "queuegate.hasOwnCa" -}}
{{- $certificate := .Values.webhook.certificate -}}
{{- if and .Values.webhook.enabled (not (or $certificate.certManager $certificate.caBundle)) -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the API server asks about the annotation of users. */}}
{{- define "queuegate.annotates" -}}
{{- $admission := .Values.webhook.settings.admission | default dict -}}
{{- if or (not $admission.queues) (hasKey $admission "user_info") (dig "yunikorn" "enabled" false $admission) -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the webhook follows the scheduler's settings about users and namespaces. */}}
{{- define "queuegate.followsYunikorn" -}}
{{- $queues := dig "admission" "queues" dict .Values.webhook.settings | default dict -}}
{{- if or (include "queuegate.annotates" .) (hasKey ($queues.schedulers | default dict) "yunikorn") -}}true{{- end -}}
{{- end -}}

{{/* Not empty if the policy in the settings is the RBAC of this cluster. The argument: the settings. */}}
{{- define "queuegate.followsCluster" -}}
{{- range prepend (.policies | default list) (.policy | default dict) -}}
{{- if and (hasKey . "kubernetes") (not (.kubernetes | default dict).kubeconfig) -}}true{{- end -}}
{{- end -}}
{{- end -}}

{{/* The rights to read RBAC and queues. The argument is a list: the root, the component and its account. */}}
{{- define "queuegate.rbacReader" -}}
{{- $name := printf "%s-rbac" (index . 2) -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels: {{- include "queuegate.labels" (list (index . 0) (index . 1)) | nindent 4 }}
rules:
  - apiGroups: [rbac.authorization.k8s.io]
    resources: [clusterrolebindings, clusterroles, rolebindings, roles]
    verbs: [list, watch]
  - apiGroups: [kueue.x-k8s.io]
    resources: [clusterqueues, cohorts, localqueues]
    verbs: [list, watch]
  - apiGroups: [scheduling.run.ai]
    resources: [queues]
    verbs: [list, watch]
  - apiGroups: [scheduling.volcano.sh]
    resources: [namespacequeues, queues]
    verbs: [list, watch]
  - apiGroups: [scheduling.sigs.k8s.io]
    resources: [elasticquotas]
    verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels: {{- include "queuegate.labels" (list (index . 0) (index . 1)) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ index . 2 }}
    namespace: {{ (index . 0).Release.Namespace }}
{{- end -}}

{{/* For the notes. The argument is a list: what waits, and its mounts. */}}
{{- define "queuegate.waitsForMounts" -}}
{{- $who := index . 0 -}}
{{- range index . 1 }}
{{- if not .token }}

The {{ $who }} waits for the {{ if .secret }}Secret {{ .secret }}{{ else }}ConfigMap {{ .configMap }}{{ end }}, mounted at {{ .path }}.
{{- end }}
{{- end }}
{{- end -}}
