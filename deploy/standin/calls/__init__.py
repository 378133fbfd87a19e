"""The calls of the REST API, one module for each part of GitHub."""

from __future__ import annotations

from deploy.standin.calls import app, checks, contents, hooks, issues, pulls, repos

ROUTES = (*app.ROUTES, *hooks.ROUTES, *repos.ROUTES, *contents.ROUTES, *pulls.ROUTES, *issues.ROUTES, *checks.ROUTES)
