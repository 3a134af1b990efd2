"""Where the files of pods are below the node's directory.

pods/<uid>/volumes/<volume>               content of volumes
pods/<uid>/volumes/<volume>~claim         the directory of a claim that is set up, a link
pods/<uid>/sub-paths/<container>          parts of volumes, mounted there while a container starts
pods/<uid>/logs/<container>/<attempt>.log
pods/<uid>/messages/<container>/<attempt> termination messages
pods/<uid>/layers/<container>/<attempt>   what one start of a container changes in its image
pods/<uid>/hosts, pods/<uid>/resolv.conf  mounted into containers
"""

from pathlib import Path


class PodFiles:
    def __init__(self, root: Path) -> None:
        self.root = root

    def pod(self, uid: str) -> Path:
        return self.root / "pods" / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def sub_paths(self, uid: str, container: str) -> Path:
        return self.pod(uid) / "sub-paths" / container

    def logs(self, uid: str) -> Path:
        return self.pod(uid) / "logs"

    def log(self, uid: str, container: str, attempt: int) -> Path:
        return self.logs(uid) / container / f"{attempt}.log"

    def messages(self, uid: str) -> Path:
        return self.pod(uid) / "messages"

    def termination_message(self, uid: str, container: str, attempt: int) -> Path:
        return self.messages(uid) / container / str(attempt)

    def layers(self, uid: str) -> Path:
        return self.pod(uid) / "layers"

    def layer(self, uid: str, container: str, attempt: int) -> Path:
        return self.layers(uid) / container / str(attempt)

    def hosts(self, uid: str) -> Path:
        return self.pod(uid) / "hosts"

    def resolv_conf(self, uid: str) -> Path:
        return self.pod(uid) / "resolv.conf"
