#!/usr/bin/python3
"""Builds the workspace's test programs and runs several of them at a time.

Most tests wait: for a session to end, a lease to run out, a server to start. So there are twice as
many lanes as cores, and each program runs some of its tests at a time. The output of each program
goes to two files of its own; when a program fails, both are printed.

What failed beside other programs runs again, alone and several times. If it passes each time, the run
passes, and its end names the test: such a test mistakes a busy machine for a fault, which is a defect of
the test. A failure that mentions a duplicate is never excused.
"""

import argparse
import collections
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import time

# Programs that run one after the other in one lane: they share Debian roots and images.
CHAIN = ("systemd_", "pod_")

# The longest programs, which start first so that none of them is left over at the end. Those whose
# tests do little but wait run more of them at a time.
LONGEST = {
    "worker_java": 4,
    "worker_reclaim": 6,
    "worker_fleet": 2,
    "worker_identity": 4,
    "worker_outage": 3,
    "lend_run": 2,
    "lend": 6,
    "container_lend": 6,
    "clients_python": 1,
    "clients_node": 1,
    "clients_java": 1,
    "clients_rust": 1,
    "clients_go": 1,
    "clients_php": 1,
    "faults": 2,
    "worker_clock": 1,
    "worker_database": 3,
    "worker_fence": 3,
    "worker_names": 3,
    "store_sessions": 2,
    "worker_tree": 4,
    "fleet": 2,
    "worker_clock_ahead": 4,
    "worker_data_lost": 2,
    "worker_etcd": 3,
    "worker_node": 5,
    "worker_peers": 3,
    "doctor_registry": 4,
    "redis": 3,
    "several": 3,
    "harness_zookeeper": 2,
    "database_identity": 2,
    "database_outage": 2,
    "database_rows": 2,
    "store_many": 2,
    "page": 1,
    "leafd": 2,
    "witness": 4,
}
THREADS = 2

# With --quick: the unit tests, and in these programs the tests whose names contain this, one for each
# capability.
QUICK = {
    "several": "a_copy_of_a_database",
    "witness": "a_host_that_wrote_nothing",
    "access": "a_user_given_by_name_or_number",
    "audit": "postgres::an_audit_finds",
    "audit_trail": "the_audit_says_who",
    "bench_pool": "a_bench_of_a_pool_verifies",
    "clients_go": "the_example_of_the_readme",
    "clients_java": "the_example_of_the_readme",
    "clients_node": "the_example_of_the_readme",
    "clients_php": "the_example_of_the_readme",
    "clients_python": "the_example_of_the_readme",
    "clock": "a_clock_set_back_by_3_ms",
    "completions": "bash_offers_commands",
    "forms": "every_form_that_leafctl_prints",
    "configuration": "the_printed_default_configuration",
    "database_restart": "mariadb::a_restart_without_the_database",
    "doctor": "a_healthy_embedded_daemon",
    "doctor_databases": "a_mariadb_whose_replica",
    "doctor_redis": "a_redis_that_forgets",
    "doctor_registry": "another_layout_than_the_fleets_is_bad::etcd",
    "doctor_zookeeper": "it_makes_no_node",
    "documentation": "",
    "explain": "the_number_and_the_name",
    "forecast": "the_figures_are_those",
    "first_id": "without_an_installed_leafctl",
    "hostile": "every_malformed_request",
    "http": "java_leafs_routes_answer_the_bare",
    "http_access": "a_rule_with_http_grants",
    "http_examples": "every_curl_example",
    "http_fuzz": "mutated_requests",
    "http_hostile": "pipelined_requests",
    "http_limits": "slow_connections_make_room",
    "http_restart": "restarts_under_load",
    "java_leaf": "a_step_changed_in_the_row",
    "kubernetes": "",
    "leafctl": "the_first_commands_of_the_readme",
    "leafctl_tags": "next_waits_for_a_quota",
    "leafctl_json": "an_error_is_one_json_object",
    "leafctl_health": "a_daemon_that_answers_is_healthy",
    "lend": "without_a_shared_registry",
    "leafctl_run": "the_command_gets_the_worker_id",
    "leafctl_status": "with_many_tags_the_summary",
    "leafctl_top": "the_busiest_tag",
    "leafctl_watch": "the_watch_redraws",
    "lifecycle": "sigterm_and_sigint",
    "metrics": "requests_are_counted",
    "metrics_history": "a_forecast_goes_by",
    "metrics_monitoring": "they_fire_when_they_should",
    "moving": "a_counter_in_redis_moves",
    "outage": "a_restart_without_the_store",
    "page": "the_page_shows",
    "page_events": "a_stream_tells",
    "page_foreign": "no_page_may_frame",
    "pools": "eight_children",
    "protocol": "a_client_written_from_the_page",
    "quota": "a_refused_request_costs_no_quota",
    "redis": "a_lease_is_what_incrby",
    "redis_tls": "only_a_server_with",
    "reload": "new_rules_apply",
    "service_manager": "leafd_reports_ready",
    "state": "a_damaged_journal",
    "store": "a_lease_follows_leafs_convention",
    "store_tls": "only_a_server_with_a_trusted",
    "structure": "",
    "tag_deletion": "a_request_makes_a_deleted_tag_again",
    "tags": "a_new_user_gets",
    "tombstones": "leafctl_deletes_a_tag",
    "upgrade": "",
    "worker_etcd": "compaction_and_defragmentation",
    "worker_identity": "a_layout_other_than_the_fleets",
    "worker_tree": "an_instances_nodes_hold",
}

# When a program has run for this long, something hangs. No test measures time by it.
LIMIT_MINUTES = 60
LIMIT_MINUTES_LONG = 600

# How many of the lines that a passing program printed are shown.
FIGURES = 4

# How often a test that failed beside others has to pass alone.
ALONE = 3
# More failures than this are no accident.
MOST_EXCUSED = 5
NEVER_EXCUSED = re.compile(r"panicked at .*\n.*(duplicate|twice|overlap)", re.I)

RESULT = re.compile(r"test (\S+)(?: - should panic)? \.\.\. (.*)")
CHATTER = re.compile(r"running \d+ tests?$|test result: |failures:$|successes:$|    \S+$|$")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """A signal that ends the run."""


class Program:
    """A test program that cargo has built."""

    def __init__(self, message):
        target = message["target"]
        self.path = message["executable"]
        self.folder = os.path.dirname(message["manifest_path"])
        self.package = re.search(r"([\w-]+)[@#][^@#]*$", message["package_id"]).group(1)
        self.kind = target["kind"][0] if target["kind"][0] in ("test", "bin") else "lib"
        self.file = target["name"]
        self.name = self.file if self.kind == "test" else f"{self.file}-{self.kind}"
        self.threads = LONGEST.get(self.file, THREADS)
        listed = subprocess.run(
            [self.path, "--list", "--format", "terse"],
            cwd=self.folder, check=True, capture_output=True, text=True,
        )
        # In the order in which they start.
        self.tests = re.findall(r"^(.+): test$", listed.stdout, re.M)

    def quick_tests(self):
        """Those that are run with --quick."""
        return [test for test in self.tests if QUICK[self.file] in test]

    def again(self, test):
        """The command that runs one test alone."""
        which = "--lib" if self.kind == "lib" else f"--{self.kind} {self.file}"
        return f"cargo test -p {self.package} --all-features {which} -- --exact {test}"


class Run:
    """A program that runs, or has run."""

    def __init__(self, program, logs, quick=False, alone=None):
        self.program = program
        self.tests = program.tests
        self.threads = 1 if alone else program.threads
        arguments = ["--nocapture", "--test-threads", str(self.threads)]
        if alone or (quick and program.kind == "test"):
            self.tests = alone or program.quick_tests()
            arguments += ["--exact", *self.tests]
        name = f"{program.name}.alone" if alone else program.name
        self.out, self.err = (logs / f"{name}.{suffix}" for suffix in ("out", "err"))
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [program.path, *arguments],
                cwd=program.folder,
                env={**os.environ, "CARGO_MANIFEST_DIR": program.folder},
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
            )
        self.began = time.monotonic()
        self.took = None
        # Which tests have ended, how and when.
        self.results = {}
        self.reader = open(self.out, encoding="utf-8", errors="replace")
        self.rest = ""
        self.figures = []
        self.hangs = False

    def look(self):
        """Reads what came. Whether the program has ended."""
        ended = self.process.poll() is not None
        now = time.monotonic()
        lines = (self.rest + self.reader.read()).split("\n")
        self.rest = lines.pop()
        for line in lines:
            result = RESULT.search(line)
            if result and result[1] in self.tests:
                self.results[result[1]] = (result[2], now)
            elif not result and not CHATTER.match(line) and "has been running for" not in line:
                self.figures.append(line)
        if ended:
            self.took = now - self.began
            self.reader.close()
        return ended

    def times(self):
        """How long each test took: (seconds, name). The test harness starts a test as soon as
        another one ends, in the order of its list, so the n-th start is the n-th free place."""
        ends = sorted(end for _, end in self.results.values())
        starts = [self.began] * self.threads + ends
        started = dict(zip(self.tests, starts))
        return [
            (end - started[test], f"{self.program.name}: {test}")
            for test, (_, end) in self.results.items()
        ]

    def excusable(self):
        """The tests that failed, if all tests ended and no failure mentions a duplicate."""
        if self.process.returncode != 101 or self.hangs or len(self.results) != len(self.tests):
            return []
        text = "".join(path.read_text(errors="replace") for path in (self.out, self.err))
        if NEVER_EXCUSED.search(text):
            return []
        return [test for test, (result, _) in self.results.items() if "FAILED" in result]

    def failures(self):
        """What failed: a line each."""
        if self.process.returncode == 0 and not self.hangs:
            return []
        how = f"exit code {self.process.returncode}"
        if self.process.returncode < 0:
            how = f"ended by signal {-self.process.returncode}"
        if self.hangs:
            how = "still running after its time limit"
        failed = [test for test, (result, _) in self.results.items() if "FAILED" in result]
        failed = failed or [test for test in self.tests if test not in self.results]
        return [f"{self.program.name} ({how}): {self.program.again(test)}" for test in failed] or [
            f"{self.program.name} ({how})"
        ]


def processes():
    """All processes: ID -> (start time, parent, session)."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                state, parent, _, session, *rest = stat.read().rpartition(")")[2].split()
        except OSError:
            continue
        if state != "Z":
            found[int(pid)] = (rest[15], int(parent), int(session))
    return found


def family(roots):
    """The processes that began with these: those in their sessions, and all that descend."""
    everything = processes()
    found = {pid for pid, (_, _, session) in everything.items() if pid in roots or session in roots}
    size = -1
    while size != len(found):
        size = len(found)
        found |= {pid for pid, (_, parent, _) in everything.items() if parent in found}
    return {(pid, everything[pid][0]) for pid in found}


def stop(children):
    """Ends these processes, which lead a session each, and then everything that they started.
    Keepers clean up after a test that has ended (containers, mounts), so they get time for it."""
    roots = {child.pid for child in children}
    left = family(roots)
    for child in children:
        child.terminate()
    end = time.monotonic() + 15
    while left and time.monotonic() < end:
        time.sleep(0.1)
        for child in children:
            child.poll()
        alive = {(pid, start) for pid, (start, _, _) in processes().items()}
        left = family(roots) | (left & alive)
    for pid, _ in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    for child in children:
        child.wait()


def build(arguments):
    """The test programs, as cargo builds them with these arguments."""
    command = ["cargo", "test", "--no-run", "--message-format", "json-render-diagnostics"]
    # Its own session is for `stop`.
    cargo = subprocess.Popen(
        command + arguments, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, _ = cargo.communicate()
    except Interrupted:
        stop([cargo])
        raise
    if cargo.returncode != 0:
        sys.exit("tests/lanes.py: the tests do not build")
    messages = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    programs = [
        Program(message) for message in messages
        if message.get("executable") and message.get("profile", {}).get("test")
    ]
    for program in programs:
        if program.kind == "test" and program.file in QUICK and not program.quick_tests():
            sys.exit(f"tests/lanes.py: QUICK fits no test of tests/{program.file}.rs")
    return [program for program in programs if program.tests]


def lanes_of(programs):
    """What each lane takes next: lists of programs that run one after the other."""
    chain = [program for program in programs if program.file.startswith(CHAIN)]
    others = [program for program in programs if program not in chain]
    order = list(LONGEST)
    first = [program for name in order for program in others if program.file == name]
    rest = [program for program in others if program not in first]
    return collections.deque([chain] * bool(chain) + [[program] for program in first + rest])


def tell(number, total, run):
    """One line for a program that has ended, and what it has to say."""
    failed = run.failures()
    word = "FAILED" if failed else "ok"
    count = f"{len(run.tests)} test{'s' * (len(run.tests) != 1)}"
    print(f"[{number:2}/{total}] {word:6} {run.program.name:24} {run.took:6.1f} s  {count}")
    if failed:
        for path in (run.out, run.err):
            text = path.read_text(encoding="utf-8", errors="replace")
            print(f"---- {path}\n{text}")
        print(f"---- end of {run.program.name}")
    else:
        for line in run.figures[:FIGURES]:
            print(f"        {line[:200]}")
        if len(run.figures) > FIGURES:
            print(f"        … {len(run.figures) - FIGURES} more lines in {run.out}")
    sys.stdout.flush()


def go(programs, lanes, logs, quick=False, alone=None):
    """Runs all programs, or of some programs only these tests. Returns the runs."""
    waiting, running, done = lanes_of(programs), [], []
    start = lambda program: Run(program, logs, quick, (alone or {}).get(program.name))
    long = bool(os.environ.get("LEAF_TESTS_LONG"))
    limit = 60 * (LIMIT_MINUTES_LONG if long else LIMIT_MINUTES)
    try:
        while waiting or running:
            while waiting and len(running) < lanes:
                first, *later = waiting.popleft()
                running.append((start(first), later))
            time.sleep(0.05)
            for lane in list(running):
                run, later = lane
                ended = run.look()
                if not ended and time.monotonic() - run.began > limit:
                    run.hangs = True
                    stop([run.process])
                    ended = run.look()
                if ended:
                    running.remove(lane)
                    done.append(run)
                    tell(len(done), len(programs), run)
                    if later:
                        running.append((start(later[0]), later[1:]))
    finally:
        if running:
            for number in SIGNALS:
                signal.signal(number, signal.SIG_IGN)
            stop([run.process for run, _ in running])
    return done


def one_by_one(failed, logs):
    """Runs again what failed beside others, and nothing beside it. Returns the runs it excuses."""
    if sum(len(run.failures()) for run in failed) > MOST_EXCUSED:
        return []
    excused = []
    for run in failed:
        tests = run.excusable()
        passed = 0
        while tests and passed < ALONE:
            print(f"\nAgain, alone ({passed + 1} of {ALONE}): {run.program.name}: {' '.join(tests)}")
            # A lane has nothing else to run.
            program = run.program
            again = go([program], 1, logs, alone={program.name: tests})
            if again[0].failures():
                break
            passed += 1
        if passed == ALONE:
            excused.append(run)
    return excused


def summary(done, seconds, lanes):
    """What took longest."""
    print("\nThe slowest tests:")
    for took, name in sorted((one for run in done for one in run.times()), reverse=True)[:10]:
        print(f"  {took:6.1f} s  {name}")
    print("The slowest programs:")
    for run in sorted(done, key=lambda run: -run.took)[:5]:
        print(f"  {run.took:6.1f} s  {run.program.name}")
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    tests = sum(len(run.tests) for run in done)
    print(
        f"{tests} tests, {len(done)} programs, {lanes} lanes: {seconds:.0f} s, and "
        f"{usage.ru_utime + usage.ru_stime:.0f} s of processor time"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument(
        "--lanes", type=int,
        default=int(os.environ.get("LEAF_TESTS_LANES") or 2 * len(os.sched_getaffinity(0))),
        help="programs that run at a time (LEAF_TESTS_LANES; twice the cores)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="unit tests and one test of each capability"
    )
    parser.add_argument("--note", action="append", default=[], help="a line for the end")
    parser.add_argument("cargo", nargs="*", help="after --: arguments for cargo test")
    options = parser.parse_args()
    if options.lanes < 1:
        parser.error("--lanes: at least 1")

    def interrupt(number, _):
        raise Interrupted(number)

    for number in SIGNALS:
        signal.signal(number, interrupt)
    os.chdir(pathlib.Path(__file__).resolve().parent.parent)
    arguments = options.cargo
    if options.quick:
        arguments = [*arguments, "--lib", "--bin=leafctl", *(f"--test={name}" for name in QUICK)]
    try:
        programs = build(arguments)
        if not programs:
            sys.exit("tests/lanes.py: there is nothing to run")
        # …/target/debug/deps/name-hash
        logs = pathlib.Path(programs[0].path).parents[2] / "test-logs"
        logs.mkdir(exist_ok=True)
        began = time.monotonic()
        done = go(programs, options.lanes, logs, options.quick)
        excused = one_by_one([run for run in done if run.failures()], logs)
    except Interrupted as interrupted:
        number = interrupted.args[0]
        print(f"\n!! Ended by {signal.Signals(number).name}.", file=sys.stderr)
        sys.exit(128 + number)
    summary(done, time.monotonic() - began, options.lanes)
    for note in options.note:
        print(f"\n!! {note}")
    for run in excused:
        print(
            f"\n!! Failed beside others, passed {ALONE} times alone: a defect of the test.",
            *run.failures(), sep="\n   ",
        )
    failed = [line for run in done if run not in excused for line in run.failures()]
    if failed:
        print(f"\n!! {len(failed)} failed:", *failed, sep="\n   ")
        sys.exit(1)


if __name__ == "__main__":
    main()
