# Usage: SECRET=... sign METHOD PATH < body
sign() {
  T=$(date +%s)
  case $2 in /api/v1/crm/connect/events) V=v1 HEAD="$T." ;; *) V=v2 HEAD="$T.$1.$2." ;; esac
  MAC=$({ printf %s "$HEAD"; cat; } | openssl dgst -sha256 -hmac "$SECRET" -hex | sed 's/.*= //')
  echo "X-Connect-Signature: t=$T,$V=$MAC"
}
