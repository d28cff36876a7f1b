{{/* Refuses settings that the server would refuse in this pod, or that do not match the Service, the
probes and the network policy. values.schema.json has refused unknown keys and wrong types. */}}
{{- define "queuegate.checkServer" -}}
{{- $settings := .Values.server.settings -}}
{{- $served := false -}}
{{- range $settings.listen -}}
{{- $host := regexReplaceAll ":[0-9]*$" .address "" -}}
{{- if hasPrefix "unix:" .address -}}
{{- fail (printf "server.settings.listen: %s: no folder in the pod is writable, and no other container could open the socket; remove it" .address) -}}
{{- else if or (eq $host "localhost" "[::1]") (hasPrefix "127." $host) -}}
{{- else if not (has .address (list "0.0.0.0:50051" "[::]:50051")) -}}
{{- fail (printf "server.settings.listen: %s: the Service and the network policy use port 50051 on all addresses: write 0.0.0.0:50051 or [::]:50051" .address) -}}
{{- else if not (or .tls .insecure) -}}
{{- fail (printf "server.settings.listen: %s: set tls (certificate_file, key_file), or allow plaintext with insecure: true" .address) -}}
{{- else -}}
{{- $served = true -}}
{{- end -}}
{{- end -}}
{{- if not $served -}}
{{- fail "server.settings.listen: has no address that other pods can reach: add 0.0.0.0:50051 with tls, which the Service uses" -}}
{{- end -}}
{{- range dig "http" "listen" list $settings -}}
{{- if not (has .address (list "0.0.0.0:8443" "[::]:8443")) -}}
{{- fail (printf "server.settings.http.listen: %s: the Service and the network policy use port 8443 on all addresses: write 0.0.0.0:8443 or [::]:8443" .address) -}}
{{- else if not (or .tls .insecure) -}}
{{- fail (printf "server.settings.http.listen: %s: set tls (certificate_file, key_file), or allow plaintext with insecure: true" .address) -}}
{{- end -}}
{{- end -}}
{{- if not (has (dig "ops" "listen" "" $settings) (list "0.0.0.0:9464" "[::]:9464")) -}}
{{- fail "server.settings.ops.listen: must be 0.0.0.0:9464 or [::]:9464, which the probes and Prometheus use" -}}
{{- end -}}
{{- if dig "console" "enabled" false $settings -}}
{{- if not (dig "ops" "tls" dict $settings) -}}
{{- fail "server.settings.console.enabled: also set server.settings.ops.tls (certificate_file, key_file): other pods can reach the port" -}}
{{- end -}}
{{- if gt (int (dig "workers" 1 $settings)) 1 -}}
{{- fail "server.settings.console.enabled: requires workers: 1" -}}
{{- end -}}
{{- end -}}
{{- if eq (dig "transport" "grpcio" $settings) "native" -}}
{{- fail "server.settings.transport: native serves on loopback only, and callers come from other pods: remove it" -}}
{{- end -}}
{{- if not (has (dig "audit" "path" "-" $settings | default "-") (list "-")) -}}
{{- fail "server.settings.audit.path: no folder in the pod is writable: write \"-\", for standard output" -}}
{{- end -}}
{{- $policy := $settings.policy | default dict -}}
{{- $folders := or $policy.configs $policy.defaults -}}
{{- if and $settings.policies (or $folders $policy.path) -}}
{{- fail "server.settings.policies: replaces server.settings.policy: add `policy: null` beside it" -}}
{{- end -}}
{{- if and (hasKey $policy "kubernetes") $folders -}}
{{- fail "server.settings.policy.kubernetes: replaces the scheduler's ConfigMaps: add `configs: null` and `defaults: null` beside it" -}}
{{- end -}}
{{- if and $policy.path $folders -}}
{{- fail "server.settings.policy.path: replaces the scheduler's ConfigMaps: add `configs: null` and `defaults: null` beside it" -}}
{{- end -}}
{{- $callers := $settings.callers | default dict -}}
{{- if and $callers.tokens (not $callers.token_file) -}}
{{- fail "server.settings.callers.tokens: also set server.settings.callers.token_file, to a file in one of server.mounts" -}}
{{- end -}}
{{- if and .Values.valkey.enabled ($settings.fleet | default dict).url -}}
{{- fail "server.settings.fleet.url: valkey.enabled sets it to the chart's own Valkey; remove one of the two" -}}
{{- end -}}
{{- $folders := list "/etc/queuegate" "/run/secrets/queuegate" "/etc/yunikorn/defaults" "/etc/yunikorn/configs" -}}
{{- if .Values.valkey.enabled -}}
{{- $folders = append $folders "/run/secrets/fleet" -}}
{{- end -}}
{{- range .Values.server.mounts -}}
{{- $folders = append $folders (clean .path) -}}
{{- end -}}
{{- include "queuegate.checkPaths" (list "server" "server.settings" $settings $folders) -}}
{{- include "queuegate.checkMounts" (concat (list "server" .Values.server "/etc/queuegate" "/run/secrets/queuegate") (ternary (list "/run/secrets/fleet") list .Values.valkey.enabled)) -}}
{{- end -}}

{{/* Refuses mounts at, above or below another folder of the pod; the argument is a list: the part, its
values, and the folders that only this part has. */}}
{{- define "queuegate.checkMounts" -}}
{{- $part := first . -}}
{{- $taken := concat (slice . 2) (list "/etc/yunikorn/defaults" "/etc/yunikorn/configs") -}}
{{- range (index . 1).mounts -}}
{{- $path := clean .path -}}
{{- range $taken -}}
{{- if or (hasPrefix (printf "%s/" .) (printf "%s/" $path)) (hasPrefix (printf "%s/" $path) (printf "%s/" .)) -}}
{{- fail (printf "%s.mounts: %s: the pod has the folder %s; choose another one" $part $path .) -}}
{{- end -}}
{{- end -}}
{{- $taken = append $taken $path -}}
{{- end -}}
{{- end -}}

{{/* Refuses paths of files that no volume of the pod serves. The argument is a list: the part, the key of the
values, their settings, and the folders of the volumes. The image has the folders of certificates in /etc/ssl and
/usr; the kubelet and webhooks of clouds mount tokens in /var/run/secrets. */}}
{{- define "queuegate.checkPaths" -}}
{{- $part := index . 0 -}}
{{- $above := index . 1 -}}
{{- $value := index . 2 -}}
{{- $folders := index . 3 -}}
{{- if kindIs "map" $value -}}
{{- range $key, $each := $value -}}
{{- if and (kindIs "string" $each) $each (ne $each "-") (regexMatch "^(path|configs|defaults|yarn_site|spark_defaults)$|_(file|dir)$" $key) -}}
{{- $isServed := false -}}
{{- range concat $folders (list "/etc/ssl" "/usr" "/var/run/secrets") -}}
{{- if hasPrefix (printf "%s/" .) (printf "%s/" (clean $each)) -}}
{{- $isServed = true -}}
{{- end -}}
{{- end -}}
{{- if not $isServed -}}
{{- fail (printf "%s.%s: %s: no volume of the pod serves it: add a Secret or ConfigMap to %s.mounts, with the folder as its path" $above $key $each $part) -}}
{{- end -}}
{{- else -}}
{{- include "queuegate.checkPaths" (list $part (printf "%s.%s" $above $key) $each $folders) -}}
{{- end -}}
{{- end -}}
{{- else if kindIs "slice" $value -}}
{{- range $number, $each := $value -}}
{{- include "queuegate.checkPaths" (list $part (printf "%s[%d]" $above $number) $each $folders) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The seconds of a duration of the settings: 30s, 250ms, 1h30m, or a number. */}}
{{- define "queuegate.seconds" -}}
{{- $factors := dict "ms" 0.001 "s" 1.0 "" 1.0 "m" 60.0 "h" 3600.0 "d" 86400.0 -}}
{{- $seconds := 0.0 -}}
{{- range regexFindAll "[0-9.]+(ms|s|m|h|d)?" (toString .) -1 -}}
{{- $seconds = addf $seconds (mulf (regexFind "^[0-9.]+" . | float64) (get $factors (regexFind "[a-z]*$" .))) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}
