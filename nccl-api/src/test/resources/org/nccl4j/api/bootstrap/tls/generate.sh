#!/bin/sh
# Certificates and keys for tests: good ones by two authorities, an expired one, a key in an old
# format. Valid from 2020 to 2120, whatever a machine's clock says.
set -eu
cd "$(dirname "$0")"
work=$(mktemp -d)
cat > "$work/ca.conf" <<END
[ca]
default_ca = test
[test]
database = $work/index
serial = $work/serial
new_certs_dir = $work
default_md = sha256
policy = any
unique_subject = no
[any]
commonName = supplied
[authority]
basicConstraints = critical,CA:true
[rank]
basicConstraints = CA:false
END
touch "$work/index"
echo 01 > "$work/serial"

# sign NAME BEGIN END EXTENSIONS OPTIONS...: makes NAME's key, and its certificate
sign() {
  name=$1 begin=$2 end=$3 extensions=$4
  shift 4
  openssl ecparam -name prime256v1 -genkey -noout -out "$work/$name.key"
  openssl pkcs8 -topk8 -nocrypt -in "$work/$name.key" -out "$work/$name.pkcs8"
  openssl req -new -key "$work/$name.key" -subj "/CN=nccl4j test $name" -out "$work/$name.csr"
  openssl ca -batch -notext -config "$work/ca.conf" -extensions "$extensions" "$@" \
    -startdate "$begin" -enddate "$end" -in "$work/$name.csr" -out "$name.pem"
}

authority() {
  sign "$1" 20200101000000Z 21200101000000Z authority -selfsign -keyfile "$work/$1.key"
}

# certificate NAME AUTHORITY END
certificate() {
  sign "$1" 20200101000000Z "$3" rank -cert "$2.pem" -keyfile "$work/$2.key"
  mv "$work/$1.pkcs8" "$1.key"
}

authority authority
authority other-authority
certificate rank authority 21200101000000Z
certificate stranger other-authority 21200101000000Z
certificate expired authority 20200102000000Z
cat authority.pem other-authority.pem > both-authorities.pem
openssl ec -in rank.key -out old-format.key
rm -r "$work"
