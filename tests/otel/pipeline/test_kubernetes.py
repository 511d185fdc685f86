"""The manifest for Kubernetes: strictly read, and its container run here as a kubelet would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import urllib3
import yaml
from otlp_sinks import grpc_sink, logs_request
from run_child import PATIENCE, RunChild

import quiver.otel
from quiver.otel.pipeline import Plan, load_pipeline
from quiver.otel.receivers import Limits
from quiver.units import SECOND, parse_bytes

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "kubernetes"
PAGE = Path(quiver.otel.__file__).with_name("KUBERNETES.md")
MOUNTS = ("/var/lib/quiver", "/etc/quiver/config", "/etc/quiver/secrets")
TOKEN = "0123456789abcdef" * 2
BASE_MEMORY = 256 << 20
"""For Python, Arrow and gRPC: they take less than half of it before the first request."""
OFFERED = 32 << 20
LAST_WAIT = 2
"""Seconds that each delivery may take beyond drain_timeout."""

FIELDS = {
    "ConfigMap": {"data"},
    "Service": {"spec"},
    "PodDisruptionBudget": {"spec"},
    "StatefulSet": {"spec"},
}
API = {"PodDisruptionBudget": "policy/v1", "StatefulSet": "apps/v1"}
SPEC = {
    "Service": {"selector", "ports", "clusterIP"},
    "PodDisruptionBudget": {"maxUnavailable", "selector"},
    "StatefulSet": {
        *("serviceName", "replicas", "podManagementPolicy", "selector", "template"),
        *("persistentVolumeClaimRetentionPolicy", "volumeClaimTemplates"),
    },
}
POD = {
    *("automountServiceAccountToken", "terminationGracePeriodSeconds", "securityContext"),
    *("containers", "volumes"),
}
CONTAINER = {
    *("name", "image", "command", "args", "env", "ports", "livenessProbe", "readinessProbe"),
    *("lifecycle", "securityContext", "resources", "volumeMounts"),
}


class _Strict(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, **how: Any) -> dict[Any, Any]:
        keys = [self.construct_object(key) for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"given twice in {node.start_mark}"
        return super().construct_mapping(node, **how)


def objects() -> dict[tuple[str, str], dict[str, Any]]:
    text = (FOLDER / "quiver.yaml").read_text()
    found = list(yaml.load_all(text, Loader=_Strict))
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def of(kind: str, name: str = "quiver") -> dict[str, Any]:
    return objects()[kind, name]


def pod() -> dict[str, Any]:
    return dict(of("StatefulSet")["spec"]["template"]["spec"])


def container() -> dict[str, Any]:
    (only,) = pod()["containers"]
    return dict(only)


def variables() -> dict[str, str]:
    return {each["name"]: each["value"] for each in container()["env"]}


def plan(tmp_path: Path) -> Plan:
    path = tmp_path / "pipeline.yaml"
    path.write_text(of("ConfigMap")["data"]["pipeline.yaml"])
    return load_pipeline(path, environ=variables())


def test_each_object_has_what_its_kind_has_and_nothing_else() -> None:
    for (kind, name), each in objects().items():
        assert set(each) == {"apiVersion", "kind", "metadata", *FIELDS[kind]}, name
        assert each["apiVersion"] == API.get(kind, "v1")
        assert set(each["metadata"]) == {"name", "labels"}
        assert re.fullmatch(r"[a-z][a-z0-9-]{0,62}", name)
        assert set(each.get("spec", ())) <= SPEC.get(kind, set())
    assert set(of("StatefulSet")["spec"]) == SPEC["StatefulSet"]
    assert set(pod()) == POD
    assert set(container()) == CONTAINER


def test_names_that_refer_to_each_other_do() -> None:
    stateful, found = of("StatefulSet")["spec"], objects()
    labels = stateful["template"]["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == labels
    assert of("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == labels
    governing = found["Service", stateful["serviceName"]]["spec"]
    assert governing["clusterIP"] == "None"
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    for (kind, _), each in found.items():
        if kind == "Service":
            assert each["spec"]["selector"] == labels
            for port in each["spec"]["ports"]:
                assert ports[port["targetPort"]] == port["port"]
    for probe in ("livenessProbe", "readinessProbe"):
        assert container()[probe]["httpGet"]["port"] in ports
    claims = [each["metadata"]["name"] for each in stateful["volumeClaimTemplates"]]
    volumes = {each["name"]: each for each in pod()["volumes"]}
    mounts = {each["mountPath"]: each for each in container()["volumeMounts"]}
    assert sorted(mounts) == sorted(MOUNTS)
    assert {each["name"] for each in mounts.values()} == {*claims, *volumes}
    assert ("ConfigMap", volumes["config"]["configMap"]["name"]) in found
    secret = volumes["token"]["secret"]
    comment = (FOLDER / "quiver.yaml").read_text()
    assert f"kubectl create secret generic {secret['secretName']} --from-literal=token=" in comment
    assert not secret["defaultMode"] & 0o007
    annotations = stateful["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(ports["health"])


def test_the_pipeline_listens_where_the_pod_says_and_writes_to_its_volume(tmp_path) -> None:
    made = plan(tmp_path)
    ports = {each["name"]: each["containerPort"] for each in container()["ports"]}
    (receiver,) = made.of_role("receiver")
    assert made.listening_addr == f"0.0.0.0:{ports['health']}"
    assert receiver.options["protocols.grpc.listening_addr"] == f"0.0.0.0:{ports['otlp-grpc']}"
    assert receiver.options["protocols.http.listening_addr"] == f"0.0.0.0:{ports['otlp-http']}"
    data, _, secrets = MOUNTS
    assert receiver.options["bearer_token_file"] == f"{secrets}/token"
    (store,) = made.stores
    assert store.store is not None
    assert str(store.store.path).startswith(f"{data}/")  # A volume's root may have lost+found.


def test_what_it_may_take_is_enough_for_what_the_config_allows(tmp_path) -> None:
    made = plan(tmp_path)
    (store,), (receiver,) = made.stores, made.of_role("receiver")
    exporters = made.of_role("exporter")
    assert store.store is not None
    config = store.store.config
    (claim,) = of("StatefulSet")["spec"]["volumeClaimTemplates"]
    disk = parse_bytes(claim["spec"]["resources"]["requests"]["storage"] + "B", key="storage")
    assert 0 < config.retention.size_cap <= disk * 0.9
    size, requests = (receiver.options[f"max_{n}"] for n in ("request_size", "concurrent_requests"))
    memory = BASE_MEMORY + Limits(message_bytes=size, requests=requests).memory_bytes
    memory += 2 * config.segment.target_size
    memory += sum(OFFERED + 2 * each.options["max_in_flight"] * size for each in exporters)
    resources = container()["resources"]
    limit = parse_bytes(resources["limits"]["memory"] + "B", key="memory")
    assert f"{memory >> 20} MiB" in PAGE.read_text()
    assert memory <= limit == parse_bytes(resources["requests"]["memory"] + "B", key="memory")
    pause = int(container()["lifecycle"]["preStop"]["exec"]["command"][1])
    drain = made.drain_timeout_ns / SECOND + LAST_WAIT * len(exporters)
    assert pause + drain + 10 <= pod()["terminationGracePeriodSeconds"]


def test_nothing_runs_as_root_or_may_write_to_the_image() -> None:
    of_pod, of_container = pod()["securityContext"], container()["securityContext"]
    assert of_pod["runAsNonRoot"]
    assert of_pod["runAsUser"] == of_pod["fsGroup"] > 0
    assert of_container["readOnlyRootFilesystem"]
    assert not of_container["allowPrivilegeEscalation"]
    assert of_container["capabilities"] == {"drop": ["ALL"]}
    docker = (FOLDER / "Dockerfile").read_text()
    assert f"USER {of_pod['runAsUser']}:{of_pod['runAsGroup']}" in docker
    extras = re.findall(r"quiver-store\[([a-z,]+)\]", docker)
    assert extras == ["cli,otlp,prometheus"]
    assert f'ENTRYPOINT ["{container()["command"][0]}"]' in docker


@pytest.fixture
def mapped(tmp_path: Path) -> Path:
    """The volumes of the pod as folders; gives the pipeline's file."""
    text = of("ConfigMap")["data"]["pipeline.yaml"]
    for number, mount in enumerate(MOUNTS):
        (tmp_path / str(number)).mkdir()
        text = text.replace(mount, str(tmp_path / str(number)))
    text, count = re.subn(r"0\.0\.0\.0:\d+", "127.0.0.1:0", text)
    assert count == 3
    (tmp_path / "2" / "token").write_text(TOKEN + "\n")
    (tmp_path / "2" / "token").chmod(0o440)
    path = tmp_path / "1" / "pipeline.yaml"
    path.write_text(text)
    return path


def test_its_config_is_right(mapped) -> None:
    command = [sys.executable, "-m", "quiver", "config", "check", str(mapped)]
    env = {"PYTHONPATH": str(ROOT), **variables()}
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert (done.returncode, done.stdout) == (0, f"OK: 3 nodes in {mapped}\n"), done.stderr


def test_its_container_starts_answers_probes_takes_a_request_and_ends(mapped, monkeypatch) -> None:
    assert [*container()["command"], *container()["args"]] == [
        *("quiver", "run", f"{MOUNTS[1]}/{mapped.name}")
    ]
    for name in ("HOME", "TMPDIR"):  # Nothing but the volume can be written to.
        monkeypatch.setenv(name, "/nowhere")
    with grpc_sink() as sink:
        (variable,) = variables()
        monkeypatch.setenv(variable, f"http://127.0.0.1:{sink.port}")
        with RunChild(mapped) as child, urllib3.PoolManager(timeout=PATIENCE) as http:
            health = child.wait_for("ready")["url"]
            for probe in ("livenessProbe", "readinessProbe"):
                path = container()[probe]["httpGet"]["path"]
                assert http.request("GET", health + path).status == 200
            _, address = child.addresses("otlp_receiver")
            headers = {"content-type": "application/x-protobuf"}
            url = f"http://{address}/v1/logs"
            body = logs_request("hello")
            assert http.request("POST", url, body=body, headers=headers).status == 401
            headers["authorization"] = f"Bearer {TOKEN}"
            assert http.request("POST", url, body=body, headers=headers).status == 200
            annotations = of("StatefulSet")["spec"]["template"]["metadata"]["annotations"]
            metrics = http.request("GET", health + annotations["prometheus.io/path"]).data.decode()
            assert 'receiver_items_total{node="otlp_receiver",signal="logs"} 1.0' in metrics
            child.process.terminate()
            assert child.process.wait(pod()["terminationGracePeriodSeconds"]) == 0
        assert sink.texts == ["hello"]
    folder = mapped.parents[1]
    assert sorted(each.name for each in folder.iterdir()) == ["0", "1", "2"]
    assert [each.name for each in (folder / "0").iterdir()] == ["store"]
