"""bench --sweep-algorithms and --show-choice. Emulated NCCL always chooses RING SIMPLE, which is slower than other variants for small
messages and the fastest for large messages, so both verdicts are known in advance. tests/emulator/nccl/README.md lists the times."""
import json
import re

import pytest
from test_real_nccl import nccl_header

SMALL, LARGE = 1024, 64 << 20
TIMES_ONLY = {"EMU_DATA": "off"}  # operations move no data, so large sizes take no time on the host
FORCED_VARIANTS = {("TREE", "LL"), ("TREE", "LL128"), ("TREE", "SIMPLE"), ("RING", "LL"), ("RING", "LL128")}


def sweep(busbar, tmp_path, *args, ranks=2, env=None, sizes=f"{SMALL},{LARGE}"):
    return busbar.json("bench", "--sweep-algorithms", "--sizes", sizes, *args, ranks=ranks, env=env, tmp_path=tmp_path)


@pytest.mark.smoke
def test_marks_a_choice_that_is_not_the_fastest(busbar, tmp_path):
    run = sweep(busbar, tmp_path, "all_reduce", "-c", "0", env=TIMES_ONLY)
    lost = {(c["bytes"], c["placement"]): c for c in run["algorithms"] if c["nccl_choice"] == "not_best"}
    assert set(lost) == {(SMALL, "out_of_place"), (SMALL, "in_place")}
    for comparison in lost.values():
        assert (comparison["chosen"]["algorithm"], comparison["chosen"]["protocol"]) == ("RING", "SIMPLE")
        assert (comparison["best"]["algorithm"], comparison["best"]["protocol"]) == ("TREE", "LL")
        # RING SIMPLE: two steps take 8 us; TREE LL: 0.3 of this time
        assert comparison["lost_factor"] == pytest.approx(comparison["chosen"]["time_us"] / comparison["best"]["time_us"])
        assert comparison["lost_factor"] > 3 and comparison["chosen_again_us"] == comparison["chosen"]["time_us"]


@pytest.mark.parametrize("sizes, end", [("1K,64M", r"; largest gain: all_reduce, 1 KiB: 2\.4\d us with TREE LL, 70 % less than NCCL's choice "
                                         r"\(RING SIMPLE, 8\.00 us\); highest bus bandwidth \S+ GB/s \(all_reduce, 64 MiB\)"),
                                        ("64M", "; no algorithm or protocol is significantly faster than NCCL's choice; highest bus .*")])
def test_last_line_states_the_largest_gain(busbar, sizes, end):
    """With size, algorithm and protocol; not the shortest time, which is that of NCCL's choice at the smallest size."""
    last = busbar.run("bench", "all_reduce", "--sweep-algorithms", "--sizes", sizes, ranks=2, env=TIMES_ONLY).stdout.splitlines()[-1]
    assert re.fullmatch("# data not verified .* results" + end, last), last


@pytest.mark.parametrize("placement", ["out_of_place", "in_place"])
def test_measures_the_choice_again_with_a_single_placement(busbar, tmp_path, placement):
    run = sweep(busbar, tmp_path, "all_reduce", "-c", "0", "--placement", placement, sizes=str(SMALL), env=TIMES_ONLY)
    (comparison,) = run["algorithms"]
    assert comparison["placement"] == placement and comparison["nccl_choice"] == "not_best"
    assert comparison["chosen_again_us"] == comparison["chosen"]["time_us"]


def test_does_not_mark_the_fastest_choice(busbar, tmp_path):
    run = sweep(busbar, tmp_path, "all_reduce", "-c", "0", sizes=str(LARGE), env=TIMES_ONLY)
    for comparison in run["algorithms"]:
        assert (comparison["nccl_choice"], comparison["lost_factor"], comparison["chosen_again_us"]) == ("best", 1.0, None)


def test_every_variant_has_its_own_rows(busbar, tmp_path):
    run = sweep(busbar, tmp_path, "all_reduce", sizes=str(SMALL))
    own = [row for row in run["results"] if not row["forced"]]
    forced = [row for row in run["results"] if row["forced"]]
    assert len(own) == 2 and {(row["algorithm"], row["protocol"]) for row in own} == {("RING", "SIMPLE")}
    assert len(forced) == 10 and {(row["algorithm"], row["protocol"]) for row in forced} == FORCED_VARIANTS
    assert all(row["wrong"] == 0 for row in run["results"])
    not_measured = run["algorithms"][0]["not_measured"]
    assert {item["reason"] for item in not_measured} == {"not_offered"} and len(not_measured) == 21 - 6


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"])
def test_nccl_of_today_is_forced_by_the_configuration_of_each_call(busbar, tmp_path, collective):
    """NCCL 2.31 introduced functions with a configuration. The rows equal those that the tuner plugin forces."""
    rows = [[(r["algorithm"], r["protocol"], r["forced"], r["time_us"]["p50"])
             for r in sweep(busbar, tmp_path, collective, sizes=str(SMALL), env={"EMU_DATA": "off", "EMU_NCCL_WINDOW": minor})["results"]]
            for minor in ("30", "32")]
    assert rows[0] == rows[1] and len(rows[0]) > 2
    function = "nccl" + "".join(word.capitalize() for word in collective.split("_")) + "Config"
    for minor, status in (("30", 0), ("32", 1)):
        done = busbar.run("bench", collective, "--sweep-algorithms", "--sizes", SMALL, ranks=2,
                          env={"EMU_DATA": "off", "EMU_NCCL_WINDOW": minor, "EMU_FAULT": f"fail:rank=0,call=1,name={function}"})
        assert done.returncode == status and (function in done.stderr) == (status == 1)


def test_variants_that_nccl_ignores_are_not_reported_as_measured(busbar, tmp_path):
    run = sweep(busbar, tmp_path, "all_reduce", sizes=str(SMALL), env={"EMU_NCCL_IGNORE": "LL128"})
    assert not [row for row in run["results"] if row["protocol"] == "LL128"]
    assert len(run["results"]) == 2 + 6
    ignored = [item for item in run["algorithms"][0]["not_measured"] if item["reason"] == "ignored"]
    assert [(item["algorithm"], item["protocol"], item["ran"]) for item in ignored] == [
        ("TREE", "LL128", "RING SIMPLE"), ("RING", "LL128", "RING SIMPLE")]


def test_table_agrees_with_json(busbar):
    done = busbar.run("bench", "all_reduce", "--sweep-algorithms", "--sizes", f"{SMALL},{LARGE}", "--placement", "out_of_place",
                      "-c", "0", "--full", ranks=2, env={"EMU_NCCL_IGNORE": "LL128", **TIMES_ONLY})
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    rows = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    assert [(row[0], row[-5], row[-4], row[-1][-1]) for row in rows] == [
        ("1024", "RING", "SIMPLE", "n"), ("1024", "TREE", "LL", "*"), ("1024", "TREE", "SIMPLE", "*"), ("1024", "RING", "LL", "*"),
        (str(LARGE), "RING", "SIMPLE", "n"), (str(LARGE), "TREE", "LL", row_end(rows[5])),
        (str(LARGE), "TREE", "SIMPLE", row_end(rows[6])), (str(LARGE), "RING", "LL", row_end(rows[7]))]
    assert not any(row[-1].endswith("*") for row in rows[4:])
    assert any("slower than the best (*) in 1 of 2 results" in line for line in lines)
    best = [line.split()[1:] for line in lines if line.startswith("#") and line.split()[1:2] in ([str(SMALL)], [str(LARGE)])]
    assert [(row[0], row[5:7], row[8:10], row[11]) for row in best] == [
        (str(SMALL), ["RING", "SIMPLE"], ["TREE", "LL"], "3.30*"), (str(LARGE), ["RING", "SIMPLE"], ["RING", "SIMPLE"], "1.00")]
    assert any(line.startswith("# not measured, NCCL ran another algorithm or protocol: TREE LL128, RING LL128") for line in lines)
    assert any(line.startswith("# not measured, not offered by NCCL: COLLNET_DIRECT,") for line in lines)


def test_short_output_has_the_ranking_and_what_restricts_the_choice(busbar, tmp_path):
    """12 sizes. Equal rankings of both placements have one line."""
    args = ("bench", "all_reduce", "--sweep-algorithms", "-n", 2, "--json", tmp_path / "r.json")
    done = busbar.run(*args, ranks=2, env=TIMES_ONLY)
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 25 and done.stdout.count("   both  RING SIMPLE ") == 12
    assert {c["restricted_by"] for c in json.loads((tmp_path / "r.json").read_text())["algorithms"]} == {None}
    done = busbar.run(*args, "--sizes", SMALL, ranks=2, env={**TIMES_ONLY, "NCCL_ALGO": "Ring", "NCCL_PROTO": "LL,Simple",
                                                                      "NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "0", "NCCL_MAX_CTAS": "64",
                                                                      "NCCL_MIN_NCHANNELS": "32"})
    assert "emulated NCCL: without effect, because not modelled: NCCL_P2P_DISABLE=1, NCCL_MIN_NCHANNELS=32\n" in done.stderr
    assert "emulated NCCL: limits of CTAs or channels change no times with profile " in done.stderr  # NCCL_MAX_CTAS
    assert "# $NCCL_ALGO=Ring, $NCCL_PROTO=LL,Simple restricts the choice: " in done.stdout
    assert {c["restricted_by"] for c in json.loads((tmp_path / "r.json").read_text())["algorithms"]} == {"$NCCL_ALGO=Ring, $NCCL_PROTO=LL,Simple"}


def row_end(row):
    return row[-1][-1]


def test_average_bandwidth_uses_the_choice_of_nccl(busbar):
    def mean(*args):
        done = busbar.run("bench", "all_reduce", "--sizes", str(LARGE), "-c", "0", *args, ranks=2, env=TIMES_ONLY)
        return [line for line in done.stdout.splitlines() if "Avg bus bandwidth" in line]

    assert mean() == mean("--sweep-algorithms")


def test_point_to_point_collectives_have_no_variants(busbar, tmp_path):
    run = sweep(busbar, tmp_path, "alltoall", "sendrecv", sizes=str(SMALL))
    assert not any(row["forced"] for row in run["results"])
    assert {c["nccl_choice"] for c in run["algorithms"]} == {"unknown"} and {c["best"] for c in run["algorithms"]} == {None}
    run = sweep(busbar, tmp_path, "all_reduce", sizes=str(SMALL), ranks=0)
    assert len(run["results"]) == 2 and {c["nccl_choice"] for c in run["algorithms"]} == {"unknown"}


def test_all_gather_and_reduce_scatter_have_pat(busbar, tmp_path):
    run = sweep(busbar, tmp_path, "all_gather", "reduce_scatter", "-G", "1", sizes=str(SMALL))
    assert {(row["algorithm"], row["protocol"]) for row in run["results"] if row["forced"]} == {
        ("RING", "LL"), ("RING", "LL128"), ("PAT", "SIMPLE")}
    assert {c["nccl_choice"] for c in run["algorithms"]} == {"not_best"}


# Ranks that share a GPU run with NCCL_PROTO=Simple, which leaves RING and TREE.
@pytest.mark.parametrize("args,env,rows", [(["--repeats", "5"], {}, 12), (["--share-gpu"], {"EMU_DEVICES": "1"}, 4 if nccl_header() < (2, 30) else 12)])
def test_no_verdict_without_confidence_intervals_or_with_shared_gpus(busbar, tmp_path, args, env, rows):
    run = sweep(busbar, tmp_path, "all_reduce", *args, sizes=str(SMALL), env=env)
    assert {c["nccl_choice"] for c in run["algorithms"]} == {"unknown"} and len(run["results"]) == rows
    assert {c["lost_factor"] for c in run["algorithms"]} == {None}


def test_variant_with_wrong_data_is_excluded_from_the_comparison(busbar, tmp_path):
    path = tmp_path / "result.json"
    # A row has 5 warm-up operations, 6 x (1 + 20) operations timed by events, and 1 + 20 timed by the host clock. The last timed operation of
    # the first forced row, whose data is verified, is operation 283.
    done = busbar.run("bench", "all_reduce", "--sweep-algorithms", "--sizes", str(SMALL), "--placement", "out_of_place", "--json", path,
                      ranks=2, env={"EMU_FAULT": "corrupt:rank=0,call=283,name=ncclAllReduce"})
    assert done.returncode == 3 and "out of place by TREE LL: 1 wrong" in done.stderr, done.stderr
    run = json.loads(path.read_text())
    assert [(row["algorithm"], row["protocol"]) for row in run["results"] if row["wrong"]] == [("TREE", "LL")]
    (comparison,) = run["algorithms"]
    assert ("TREE", "LL", "wrong_data") in {(i["algorithm"], i["protocol"], i["reason"]) for i in comparison["not_measured"]}
    assert (comparison["best"]["algorithm"], comparison["best"]["protocol"]) == ("RING", "LL")


def test_reports_that_nccl_did_not_load_the_tuner(busbar):
    done = busbar.run("bench", "all_reduce", "--sizes", "8", "--sweep-algorithms", ranks=2, env={"EMU_NCCL_IGNORE": "TUNER"})
    assert done.returncode == 1 and "did not load" in done.stderr and done.stdout == ""


def test_compare_pairs_forced_rows_by_variant(busbar, tmp_path):
    run = sweep(busbar, tmp_path, "all_reduce", sizes=str(SMALL))
    done = busbar.run("compare", "--full", tmp_path / "result.json", tmp_path / "result.json")
    assert done.returncode == 0 and done.stdout.count("no difference") == len(run["results"])
    assert "all_reduce TREE/LL" in done.stdout


def test_show_choice_adds_columns(busbar):
    done = busbar.run("bench", "all_reduce", "alltoall", "--sizes", str(SMALL), "--show-choice", ranks=2)
    heads = [line.split() for line in done.stdout.splitlines() if line.startswith("#") and "algorithm" in line]
    rows = [line.split() for line in done.stdout.splitlines() if line.strip() and not line.startswith("#")]
    assert heads[0][-4:] == ["algorithm", "protocol", "channels", "model"]
    assert [row[-4:] for row in rows] == [["RING", "SIMPLE", "8", "8.01"], ["-", "-", "8", "-"]]


def test_records_the_time_estimate_of_nccl(busbar, tmp_path):
    run = busbar.json("bench", "all_reduce", "all_gather", "alltoall", "--sizes", "1K", ranks=2, tmp_path=tmp_path)
    for row in run["results"]:
        expected = None if row["collective"] == "alltoall" else pytest.approx(row["time_us"]["p50"], abs=0.01)
        assert row["model_us"] == expected
    run = busbar.json("bench", "all_reduce", "--sizes", "1K", tmp_path=tmp_path)
    assert {row["model_us"] for row in run["results"]} == {None}
