"""Frozen expectations are not written where nobody looks at the difference."""

from freeze import frozen, regenerate


def test_refused_in_ci(monkeypatch, capsys):
    monkeypatch.setenv("CI", "true")
    monkeypatch.setattr(regenerate, "EXPECTED", frozen.HERE / "never")
    assert regenerate.main([]) == 2
    assert "not written where CI is set" in capsys.readouterr().err


def test_unknown_groups_are_refused(monkeypatch, capsys):
    monkeypatch.delenv("CI", raising=False)
    assert regenerate.main(["curve"]) == 2
    assert "no such group: curve" in capsys.readouterr().err
