"""test_model.py: conversion of times, reasons and names of tasks, and the client's credentials."""
import datetime
import os
import tempfile
import unittest
from urllib.parse import urlsplit

import tarry
from tarry import model
from tarry import tarry_pb2 as pb
from tarry.link import Identity, Link


class Times(unittest.TestCase):
    def test_durations_round_up(self):
        self.assertEqual([model.milliseconds(value) for value in (0, 0.0001, 1.5, datetime.timedelta(minutes=30))], [0, 1, 1500, 1_800_000])
        self.assertEqual(model.milliseconds(0.1 + 0.2), 300)  # as binary fractions, 0.1 + 0.2 is slightly more than 0.3, but the result must not be 301

    def test_times_need_a_zone(self):
        at = datetime.datetime(2030, 1, 1, 9, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
        self.assertEqual(model.unix_ms(at), 1893484800000)
        with self.assertRaisesRegex(ValueError, "no time zone"):
            model.unix_ms(datetime.datetime(2030, 1, 1))

    def test_bad_arguments_are_refused(self):
        for arguments in ({"delay": -1}, {"delay": "30m"}, {"delay": 1, "at": 2}, {"delay": float("nan")}, {"on_conflict": "twice"}, {"body": "a", "json": 1}):
            with self.subTest(arguments), self.assertRaises(ValueError):
                tarry.Schedule("q", **arguments).operation()
        with self.assertRaisesRegex(ValueError, "queue and key"):
            model.ref_of("q", None, None)


class Contents(unittest.TestCase):
    def test_json_has_its_type(self):
        content = pb.Content.FromString(tarry.Schedule("q", json={"a": 1}).operation().schedule.content)
        self.assertEqual((content.payload, content.attributes[0].name, content.attributes[0].value), (b'{"a": 1}', "content-type", "application/json"))

    def test_the_trace_goes_along_unless_the_program_says_another(self):
        token = tarry.trace_context.set({"traceparent": "mine"})
        self.addCleanup(tarry.trace_context.reset, token)

        def sent(**arguments):
            inject = arguments.pop("inject", None)
            content = pb.Content.FromString(tarry.Schedule("q", **arguments).operation(inject).schedule.content)
            return {attribute.name: attribute.value for attribute in content.attributes}
        self.assertEqual(sent(), {"traceparent": "mine"})
        self.assertEqual(sent(inject=lambda carrier: carrier.update(traceparent="hook's")), {"traceparent": "hook's"})
        self.assertEqual(sent(attributes={"traceparent": "own"}), {"traceparent": "own"})

    def test_reasons_are_cut_at_a_character(self):
        self.assertEqual(model.reason_of("ü" * 200), "ü" * 127)
        self.assertEqual(model.reason_of("a\0b\ud800"), "a b?")


class Identities(unittest.TestCase):
    def test_a_token_is_not_sent_in_the_clear(self):
        identity = Identity(token="secret")
        self.assertEqual(identity.bearer(urlsplit("ws://127.0.0.1:1")), "secret")
        self.assertEqual(identity.bearer(urlsplit("wss://shop.example:1")), "secret")
        with self.assertRaisesRegex(tarry.Denied, "use wss://"):
            identity.bearer(urlsplit("ws://shop.example:1"))
        self.assertEqual(Identity(token="secret", unsafe_plain_token=True).bearer(urlsplit("ws://shop.example:1")), "secret")

    def test_token_files_are_private_and_read_anew(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "token")
            identity, url = Identity(token_file=path), urlsplit("wss://a:1")
            with self.assertRaisesRegex(tarry.Denied, "cannot be read"):
                identity.bearer(url)
            for text in ("one\n", "two"):
                with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="ascii") as file:
                    file.write(text)
                self.assertEqual(identity.bearer(url), text.strip())
            os.chmod(path, 0o640)
            with self.assertRaisesRegex(tarry.Denied, "chmod 600"):
                identity.bearer(url)

    def test_addresses_are_checked(self):
        for urls in ("http://a:1", "ws://", "ws://a:1/path", "ws://a:1,,ws://b:1", "a:1"):
            with self.subTest(urls), self.assertRaisesRegex(ValueError, "must look like"):
                Link(urls, Identity(), None)


if __name__ == "__main__":
    unittest.main()
