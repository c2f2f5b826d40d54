"""The sink within a declarative pipeline, as docs/cells.md has it. Each run starts a server of
Spark Connect.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.ivm.spark.test_follow import edges, found, truth

ROOT = Path(__file__).parents[3]
SPEC = """name: graph
storage: {folder}/storage
libraries:
  - glob:
      include: transformations/**
"""


@pytest.mark.campaign
def test_a_pipeline_keeps_views(tmp_path: Path) -> None:
    pytest.importorskip(
        "grpc", reason="pipelines are not installed: pip install 'pyspark[pipelines]'"
    )
    text = (ROOT / "docs" / "cells.md").read_text()
    [(name, code)] = re.findall(r'```python title="(.*?)"\n(.*?)```', text, re.DOTALL)
    file = tmp_path / name
    file.parent.mkdir()
    file.write_text(
        code.replace("/data", str(tmp_path)).replace(
            "tri(x", "deg[x] = n <- agg<<n = count()>> edge(x, _).\ntri(x"
        )
    )
    (tmp_path / "spark-pipeline.yml").write_text(SPEC.format(folder=tmp_path.as_uri()))
    (tmp_path / "edges").mkdir()
    rows: set[tuple] = set()
    for number, new in enumerate(([(1, 2), (2, 3)], [(1, 3), (3, 4)])):
        rows |= {*new}
        pq.write_table(edges(*new), tmp_path / "edges" / f"{number}.parquet")
        run(tmp_path)
        assert found(tmp_path / "graph.pages") == truth(rows)
    run(tmp_path, "--full-refresh-all")
    assert found(tmp_path / "graph.pages") == truth(rows)


def run(folder: Path, *options: str) -> None:
    """Run the pipeline; in pyspark 4.3.0 the client fails after it is done."""
    from pagestore_tools.spark.session import _environment

    scripts = Path(sys.executable).parent
    paths = {"PATH": os.pathsep.join([str(scripts), os.environ["PATH"]]), "PYTHONPATH": str(ROOT)}
    with _environment(folder):
        environment = {**os.environ, **paths, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [scripts / "spark-pipelines", "run", *options],
            cwd=folder,
            env=environment,
            text=True,
            capture_output=True,
        )
    said = done.stdout + done.stderr
    assert "Run is COMPLETED" in said and (done.returncode == 0 or "UNKNOWN_RESPONSE" in said), (
        said[-3000:]
    )
