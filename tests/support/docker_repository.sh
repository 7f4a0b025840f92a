# Makes packages by the names of Docker's on this host, out of what its distribution has downloaded, and serves them as apt
# wants them, but for the signature of dists/stable/Release. Docker's own package starts a daemon of root's, too.
set -eu
cd /var/tmp/repository; www=www/dists/stable; mkdir -p x pool $www/test/binary-amd64 www/pool
for one in docker.io docker-cli containerd rootlesskit; do
    for file in /var/cache/apt/archives/${one}_*.deb; do [ ! -e "$file" ] || dpkg-deb -x "$file" x; done
done
cp runc x/usr/bin/
make() {
    tree=t/$1; mkdir -p $tree/DEBIAN $tree/usr/bin
    printf 'Package: %s\nVersion: 5:99.0\nArchitecture: amd64\nMaintainer: Nobody <nobody@example.org>\n' $1 > $tree/DEBIAN/control
    printf 'Conflicts: %s\nDescription: a stand-in\n' "$2" >> $tree/DEBIAN/control
    [ -z "$3" ] || printf 'Depends: %s\n' "$3" >> $tree/DEBIAN/control
    [ $1 != docker-ce ] || {
        mkdir -p $tree/usr/lib/systemd/system
        printf '[Service]\nExecStart=/usr/bin/dockerd\n[Install]\nWantedBy=multi-user.target\n' > $tree/usr/lib/systemd/system/docker.service
        printf '#!/bin/sh\nsystemctl daemon-reload; systemctl enable --now docker.service || true\n' > $tree/DEBIAN/postinst
        chmod 755 $tree/DEBIAN/postinst
    }
    for name in $4; do mv $(ls x/usr/bin/$name x/usr/sbin/$name 2>/dev/null | head -n 1) $tree/usr/bin/; done
    chmod 755 $tree/usr/bin/*
    file=www/pool/$1.deb; dpkg-deb -Znone --root-owner-group --build $tree $file >/dev/null
    { cat $tree/DEBIAN/control; echo "Filename: pool/$1.deb"; echo "Size: $(stat -c %s $file)"
      echo "SHA256: $(sha256sum $file | cut -d' ' -f1)"; echo; } >> $www/test/binary-amd64/Packages
}
make docker-ce docker.io 'docker-ce-cli, containerd.io' 'dockerd docker-proxy'
make docker-ce-cli docker.io,docker-cli '' docker
make containerd.io containerd,runc '' 'containerd containerd-shim-runc-v2 runc'
make docker-ce-rootless-extras docker.io,rootlesskit docker-ce rootlesskit
list=test/binary-amd64/Packages
{ printf 'Origin: Lab\nSuite: stable\nCodename: stable\nArchitectures: amd64\nComponents: test\nDate: %s\nSHA256:\n' "$(date -Ru)"
  echo " $(sha256sum $www/$list | cut -d' ' -f1) $(stat -c %s $www/$list) $list"; } > $www/Release
systemd-run --quiet --collect --unit=repository python3 -m http.server 8091 --directory /var/tmp/repository/www
