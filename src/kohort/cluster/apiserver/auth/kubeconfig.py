"""The kubeconfig of the administrator: everything that kubectl needs, embedded in one file."""

import base64
from pathlib import Path

from kohort.cluster.apiserver.auth.certificates import Pki
from kohort.cluster.apiserver.auth.model import ADMIN
from kohort.kube.private_files import write_private

TEMPLATE = """\
apiVersion: v1
kind: Config
clusters:
- name: {cluster}
  cluster:
    server: {server}
    certificate-authority-data: {authority}
users:
- name: {user}
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
    token: {token}
contexts:
- name: {cluster}
  context:
    cluster: {cluster}
    user: {user}
current-context: {cluster}
preferences: {{}}
"""


def write_kubeconfig(path: Path, pki: Pki, server: str, *, cluster: str = "kohort") -> None:
    text = TEMPLATE.format(
        cluster=cluster,
        server=server,
        user=ADMIN.name,
        authority=_data(pki.ca_certificate),
        certificate=_data(pki.admin_certificate),
        key=_data(pki.admin_key),
        token=pki.token,
    )
    write_private(path, text.encode())


def _data(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
