{{/* Refuses settings with which the webhook would decide without the administrator's policy, or not start. */}}
{{- define "queuegate.checkWebhook" -}}
{{- $webhook := .Values.webhook -}}
{{- $settings := $webhook.settings -}}
{{- $admission := $settings.admission | default dict -}}
{{- $policy := $settings.policy | default dict -}}
{{- if and $webhook.policy (ne (toString $policy.path) "queues.yaml") -}}
{{- fail "webhook.policy: also set webhook.settings.policy.path: queues.yaml, its name in the pod" -}}
{{- end -}}
{{- if and (or $admission.queues $admission.authorize) (not (or $settings.policies $policy.path $policy.configs $policy.defaults (hasKey $policy "kubernetes"))) -}}
{{- fail "webhook.settings.policy: without it, a small embedded policy decides: set {kubernetes: {}} for the RBAC of the cluster; for a policy file, set webhook.policy to the text of a queues.yaml, and webhook.settings.policy.path: queues.yaml; for YuniKorn's own policy, set configs: /etc/yunikorn/configs and defaults: /etc/yunikorn/defaults" -}}
{{- end -}}
{{- $served := list "/etc/queuegate/tls" "/etc/queuegate/settings" "/etc/yunikorn/defaults" "/etc/yunikorn/configs" -}}
{{- if $webhook.policy -}}
{{- $served = append $served "queues.yaml" -}}
{{- end -}}
{{- range $webhook.mounts -}}
{{- $served = append $served (clean .path) -}}
{{- end -}}
{{- include "queuegate.checkPaths" (list "webhook" "webhook.settings" $settings $served) -}}
{{- if and .Values.server.enabled (not (or (.Values.server.settings.callers | default dict).certificates (.Values.server.settings.callers | default dict).tokens)) $admission.queues -}}
{{- fail "server.enabled: the gRPC server answers nobody: set server.enabled: false to install the webhook alone, or list its callers in server.settings.callers" -}}
{{- end -}}
{{- end -}}
