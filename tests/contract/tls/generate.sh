#!/bin/sh
# Makes the certificates of this folder anew: an authority, and a server and a client
# that it vouches for; the other authority vouches for nothing.
set -eu
cd "$(dirname "$0")"

authority() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 \
        -subj "/CN=queuegate test authority $1" -keyout "$1.key" -out "$1.pem" \
        -addext keyUsage=critical,keyCertSign
}

leaf() {
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
        -keyout "$1.key" -out "$1.csr"
    printf 'subjectAltName=%s\nextendedKeyUsage=%s\n' "$2" "$3" > "$1.ext"
    openssl x509 -req -in "$1.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 36500 \
        -extfile "$1.ext" -out "$1.pem"
    rm "$1.csr" "$1.ext"
}

authority ca
authority other-ca
leaf server DNS:localhost,DNS:queuegate.test,IP:127.0.0.1 serverAuth
leaf client DNS:client.test clientAuth
rm -f ca.key other-ca.key ca.srl
