"""The package against real runs: in memory, and over a virtual cable where WIREBEAT_TEST_CABLE names its ends.

``python3 -m unittest discover python/tests`` runs it, with the package in the path and the program in WIREBEAT.
"""

import json
import os
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

import wirebeat

PACKET = [{"ipv4": {"destination": "10.0.0.2"}}, {"udp": {"destination": 9}}]


def scenario(**more):
    """Two flows between two ports in memory, 3,000 frames and 300."""
    flow = {"from": "a", "to": "b", "packet": PACKET}
    return {
        "variables": {"rate": "1kpps"},
        "ports": {"a": {"engine": "loopback"}, "b": {"engine": "loopback"}},
        "flows": {"voice": {**flow, "rate": "${rate}"}, "slow": {**flow, "rate": "100pps"}},
        "run": {"time": "3s"},
        **more,
    }


class RunTest(unittest.TestCase):
    def test_a_scenario_becomes_a_report(self):
        report = wirebeat.run(scenario())
        self.assertTrue(report.ok)
        self.assertIs(report.check(), report)
        self.assertEqual(report.verdict, "done")
        self.assertEqual(report["total"]["received"]["unique"], 3300)
        self.assertIn("2 flows", repr(report))

    def test_rows_are_flat(self):
        report = wirebeat.run(scenario(), interval=0.5)
        flows = report.flows()
        self.assertEqual([flow["name"] for flow in flows], ["voice", "slow"])
        self.assertEqual(flows[0]["sent.sent.frames"], 3000)
        intervals = report.intervals()
        self.assertEqual(len(intervals), 6)
        self.assertEqual(sum(row["sent.frames"] for row in intervals), 3300)
        each = report.intervals(flows=True)
        self.assertEqual(len(each), 12)
        self.assertEqual(sum(r["sent.frames"] for r in each if r["name"] == "slow"), 300)
        for row in [report.total(), *flows, *intervals, *each]:
            for key, value in row.items():
                self.assertNotIsInstance(value, (dict, list), key)

    def test_variables_and_times_are_passed_on(self):
        report = wirebeat.run(scenario(), rate="2kpps", time=1.5)
        self.assertEqual(report.flows()[0]["sent.sent.frames"], 3000)
        report = wirebeat.run(scenario(), variables={"rate": "500pps"}, time="1s")
        self.assertEqual(report.flows()[0]["sent.sent.frames"], 500)

    def test_a_file_is_run(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "lab.json"
            path.write_text(json.dumps(scenario()))
            report = wirebeat.run(path)
            saved = Path(folder) / "report.json"
            report.save(saved)
            self.assertEqual(wirebeat.load(saved).data, report.data)
            saved.write_text("{}")
            with self.assertRaises(wirebeat.Error):
                wirebeat.load(saved)

    def test_what_is_no_report_of_a_run_is_told(self):
        report = wirebeat.run(scenario(), time="100ms")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.json"
            for text, told in [
                ("", "is empty"),
                ("{", "cut short"),
                ("[]", "has no report"),
                (json.dumps({**report.data, "schema_version": "9"}), "schema version '9'"),
                (json.dumps({"schema_version": "4", "points": [], "exit_code": 0}), "several runs"),
                (json.dumps({"schema_version": "1", "old_runs": 5, "verdict": "pass"}), "compare"),
            ]:
                path.write_text(text)
                with self.assertRaises(wirebeat.Error, msg=text) as caught:
                    wirebeat.load(path)
                self.assertIn(told, caught.exception.message)
            path.write_text("\ufeff" + json.dumps(report.data), encoding="utf-8")
            self.assertEqual(wirebeat.load(path).data, report.data)

    def test_sessions_have_rows_too(self):
        cable = {"delay": "1ms", "rate": "100Mbps"}
        report = wirebeat.run(
            {
                "ports": {
                    "clients": {"engine": "loopback", "cable": cable},
                    "servers": {"engine": "loopback", "cable": cable},
                },
                "sessions": {
                    "pages": {
                        "from": "clients",
                        "to": "servers",
                        "stack": "own",
                        "clients": {"addresses": "10.0.1.0/24"},
                        "servers": {"addresses": "10.0.2.9", "ports": 80},
                        "program": {"http": {"size": "2kB"}},
                        "rate": "10/s",
                        "count": 20,
                    }
                },
            }
        )
        self.assertTrue(report.ok, report.data)
        rows = report.sessions()
        self.assertEqual({row["end"] for row in rows}, {"client", "server"})
        opened = [r["opened"] for r in report.session_intervals() if r["end"] == "client"]
        self.assertEqual(sum(opened), 20)


class ErrorTest(unittest.TestCase):
    def test_a_wrong_scenario_is_told_with_its_place(self):
        wrong = scenario()
        wrong["flows"]["voice"]["rat"] = "5kpps"
        with self.assertRaises(wirebeat.UsageError) as caught:
            wirebeat.run(wrong)
        self.assertEqual(caught.exception.exit_code, 2)
        self.assertIn("rat", caught.exception.message)
        self.assertIsNone(caught.exception.report)

    def test_what_this_machine_does_not_have_is_told(self):
        missing = scenario(ports={"a": {"interface": "nosuch0"}, "b": {"interface": "nosuch1"}})
        with self.assertRaises(wirebeat.Error) as caught:
            wirebeat.run(missing)
        self.assertIn("nosuch0", str(caught.exception))

    def test_an_expectation_that_is_not_met_has_a_report(self):
        report = wirebeat.run(scenario(), options=["--expect", "slow: sent >= 301"])
        self.assertFalse(report.ok)
        with self.assertRaises(wirebeat.ExpectationNotMet) as caught:
            report.check()
        self.assertEqual(caught.exception.exit_code, 4)
        self.assertIs(caught.exception.report, report)
        self.assertIn("sent >= 301", caught.exception.message)

    def test_a_program_that_is_not_there_is_told(self):
        with self.assertRaises(wirebeat.BinaryNotFound) as caught:
            wirebeat.run(scenario(), binary="/nonexistent/wirebeat")
        self.assertIsNone(caught.exception.exit_code)

    def test_options_that_change_what_is_read_are_refused(self):
        for options in ["--expect", b"--expect", [1]]:
            with self.assertRaises(TypeError):
                wirebeat.run(scenario(), options=options)
        for options, told in [
            (["--repeat", "2"], "one run"),
            (["--json=f"], "Report.save"),
            (["--json", "f"], "Report.save"),
        ]:
            with self.assertRaises(wirebeat.UsageError) as caught:
                wirebeat.run(scenario(), options=options)
            self.assertIn(told, caught.exception.message)
            self.assertIsNone(caught.exception.exit_code)

    def test_intervals_end_with_the_error(self):
        with wirebeat.start("/nonexistent.yaml") as run:
            with self.assertRaises(wirebeat.UsageError):
                list(run.intervals())

    def test_a_run_without_control_is_not_reached(self):
        with wirebeat.start(scenario()) as run:
            with self.assertRaises(wirebeat.Error):
                run.pause("voice")
            self.assertTrue(run.result(timeout=60).ok)


class IntervalTest(unittest.TestCase):
    def test_intervals_come_before_the_report_and_add_up_to_it(self):
        with wirebeat.start(scenario(), interval="500ms") as run:
            frames = [interval["total"]["sent"]["frames"] for interval in run.intervals()]
            report = run.result()
        self.assertEqual((len(frames), sum(frames)), (6, 3300))
        self.assertEqual(report.total()["sent.sent.frames"], 3300)
        self.assertEqual(run.missed, 0)

    def test_a_caller_that_reads_nothing_holds_up_nobody(self):
        with mock.patch("wirebeat._run._INTERVALS_MAX", 4):
            with wirebeat.start(scenario(), interval="10ms") as run:
                report = run.result(timeout=60)
                kept = list(run.intervals())
        self.assertEqual((len(kept), len(kept) + run.missed), (4, len(report.intervals())))
        self.assertEqual(kept[-1]["to_ns"], report.intervals()[-1]["to_ns"])


@unittest.skipUnless(
    "WIREBEAT_TEST_CABLE" in os.environ, "WIREBEAT_TEST_CABLE names no cable: NAME NAMESPACE, twice"
)
class CableTest(unittest.TestCase):
    """Over a cable, where time passes."""

    def scenario(self):
        one, space, other, elsewhere = os.environ["WIREBEAT_TEST_CABLE"].split()
        return {
            "ports": {
                "a": {"interface": one, "namespace": space, "engine": "packet"},
                "b": {"interface": other, "namespace": elsewhere, "engine": "packet"},
            },
            "flows": {"x": {"from": "a", "to": "b", "rate": "1kpps"}},
            "run": {"time": "60s"},
        }

    def test_a_run_is_watched_changed_and_stopped(self):
        with wirebeat.start(self.scenario(), interval="200ms", control=True) as run:
            run.change("x", rate="5kpps", size="200B")
            faster = False
            for interval in run.intervals():
                if interval["total"]["sent"]["frames"] >= 900:
                    faster = True
                    break
            self.assertTrue(faster)
            stats = run.stats(last=2)
            self.assertLessEqual(len(stats.intervals), 2)
            self.assertGreater(stats.total["total"]["sent"]["frames"], 1000)
            run.pause("x")
            run.resume("x")
            with self.assertRaises(wirebeat.UsageError) as caught:
                run.change("y", rate="1kpps")
            self.assertIn("there is no flow 'y'", caught.exception.message)
            run.end("x")
            report = run.result(timeout=60)
        self.assertEqual(report.data["end"], wirebeat_end("completed"))
        changes = [change["change"] for change in report["changes"]]
        self.assertEqual(changes, ["rate 5kpps, size 200B", "paused", "resumed", "stopped"])
        self.assertEqual(report.total()["loss.frames"], 0)
        self.assertFalse(run.running)

    def test_a_run_is_stopped_and_reports(self):
        with wirebeat.start(self.scenario(), interval="200ms") as run:
            next(run.intervals())
            run.stop()
            report = run.result(timeout=60)
        self.assertTrue(report.ok, report.verdict)
        self.assertLess(report["duration_ns"], 50e9)

    def test_a_run_ends_with_its_block(self):
        begun = time.monotonic()
        with self.assertRaises(KeyError):
            with wirebeat.start(self.scenario(), control=True) as run:
                run.stats()
                raise KeyError("of the caller")
        self.assertFalse(run.running)
        self.assertLess(time.monotonic() - begun, 30)


def wirebeat_end(reason):
    """How a report says why a run ended."""
    return {"reason": reason}


if __name__ == "__main__":
    unittest.main()
