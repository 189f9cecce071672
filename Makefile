.PHONY: check format

check:
	ruff format --check .
	ruff check .
	mypy growkit
	pytest -m "not gpu"

format:
	ruff format .
	ruff check --fix .
