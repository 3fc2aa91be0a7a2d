import pytest

from lcpool.report import hierarchical


@pytest.fixture(autouse=True)
def few_draws(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is about pages and words needs no exact probabilities."""
    if request.path.stem not in ("test_hierarchical", "test_verdict"):
        monkeypatch.setattr(hierarchical, "DRAWS", 20)
        monkeypatch.setattr(hierarchical, "WARMUP", 5)
        monkeypatch.setattr(hierarchical.Draws, "converged", True)
