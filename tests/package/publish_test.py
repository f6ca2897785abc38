"""publish_test.py: tests the results of `./dev publish`. apt installs from the signed repository, and refuses a changed one.
The manifest for Kubernetes is valid, and tarryd accepts its configurations.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]
import harness  # noqa: E402  (the paths above)
import machine  # noqa: E402
import made  # noqa: E402
import package_test  # noqa: E402
import publish  # noqa: E402
import yaml  # noqa: E402

MANIFEST = os.path.join(made.ROOT, "packaging", "kubernetes", "tarry-pair.yaml")
KEY = "Key-Type: eddsa\nKey-Curve: ed25519\nKey-Usage: sign\nName-Real: Tarry Test\nName-Email: test@example.org\nExpire-Date: 0\n%no-protection\n%commit\n"


@unittest.skipIf(machine.why_not(), machine.why_not())
class Repository(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.mkdtemp(prefix="tarry-gpg-")
        os.environ["GNUPGHOME"] = cls.home
        subprocess.run(["gpg", "--batch", "--quiet", "--gen-key"], input=KEY, text=True, check=True, capture_output=True)
        cls.path = package_test.MADE.at("repository-machine")
        shutil.rmtree(cls.path, ignore_errors=True)
        machine.checked(["cp", "-a", "--reflink=auto", package_test.base().path, cls.path], "cp")
        cls.base = machine.Base.there_already(cls.path)
        publish.repository(package_test.MADE.first(), cls.path + "/srv/apt", "stable", "test@example.org")
        shutil.copy(cls.path + "/srv/apt/tarry-archive-keyring.gpg", cls.path + "/etc/apt/keyrings-tarry.gpg")
        with open(cls.path + "/etc/apt/sources.list.d/tarry.list", "w", encoding="ascii") as file:
            file.write("deb [signed-by=/etc/apt/keyrings-tarry.gpg] file:/srv/apt stable main\n")

    @classmethod
    def tearDownClass(cls):
        subprocess.run(["gpgconf", "--kill", "all"], check=False)
        shutil.rmtree(cls.home, ignore_errors=True)
        shutil.rmtree(cls.path, ignore_errors=True)

    def test_1_apt_installs_from_it(self):
        self.base.chroot(f"{machine.APT} update && {machine.APT} install --no-install-recommends tarryd tarry && tarryd --version")

    def test_2_apt_refuses_a_package_that_was_changed(self):
        deb = next(os.path.join(self.path, "srv/apt/pool/main", name) for name in os.listdir(self.path + "/srv/apt/pool/main") if name.startswith("libtarry-dev_"))
        with open(deb, "r+b") as file:
            file.seek(200)
            byte = file.read(1)
            file.seek(200)
            file.write(bytes([byte[0] ^ 1]))
        with self.assertRaisesRegex(machine.Failed, "(?i)hash sum mismatch|unexpected size"):
            self.base.chroot(f"{machine.APT} install --no-install-recommends libtarry-dev")

    def test_3_apt_refuses_lists_that_were_changed(self):
        path = self.path + "/srv/apt/dists/stable/InRelease"
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("Label: Tarry", "Label: Other"))
        with self.assertRaises(machine.Failed):
            self.base.chroot(f"{machine.APT} -o APT::Update::Error-Mode=any update")


class Kubernetes(unittest.TestCase):
    def objects(self):
        with open(MANIFEST, encoding="utf-8") as file:
            return list(yaml.safe_load_all(file))

    def judge(self, objects):
        with tempfile.TemporaryDirectory(prefix="tarry-npm-") as work:
            subprocess.run(["npm", "install", "--silent", "--prefix", work, "kubernetes-models@4.5.1"], check=True)
            return subprocess.run(["node", os.path.join(HERE, "kubernetes.js")], input=json.dumps(objects), text=True, capture_output=True,
                                  env={**os.environ, "NODE_PATH": os.path.join(work, "node_modules")}, check=False)

    def test_kubernetes_own_schemas_accept_it(self):
        objects = self.objects()
        done = self.judge(objects)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
        next(one for one in objects if one["kind"] == "StatefulSet")["spec"]["replicas"] = "one"
        self.assertEqual(self.judge(objects).returncode, 1, "a mistake is found")

    def test_the_names_in_it_fit_together(self):
        objects = self.objects()
        named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
        for node in ("a", "b"):
            spec = named["StatefulSet", f"tarry-{node}"]["spec"]
            pod = spec["template"]["spec"]
            self.assertIn(("Service", spec["serviceName"]), named)
            self.assertEqual(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"])
            [container] = pod["containers"]
            self.assertEqual({mount["name"] for mount in container["volumeMounts"]}, {"data", *(volume["name"] for volume in pod["volumes"])})
            self.assertEqual(os.path.basename(container["args"][1]), f"{node}.conf")

    def test_tarryd_accepts_its_configurations(self):
        [config] = [one for one in self.objects() if one["kind"] == "ConfigMap"]
        with tempfile.TemporaryDirectory(prefix="tarry-kubernetes-") as work:
            for name in ("tokens", "peer-key", "peer-token-file", "tls-cert", "tls-key", "tls-peer-ca"):
                open(os.path.join(work, name), "w", encoding="ascii").close()
            for name, text in config["data"].items():
                path = os.path.join(work, name)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                done = subprocess.run([package_test.made.ROOT + "/build/broker/shell/tarryd", "--data", work + "/data", "--config", path, "--print-config"],
                                      env={"CREDENTIALS_DIRECTORY": work}, text=True, capture_output=True, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    harness.main()
