# SPDX-License-Identifier: Apache-2.0
"""Kits: sets of Debian packages that make the cell's image fit projects of one language. Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kit:
    """One set of packages."""

    name: str
    packages: tuple[str, ...]
    """Names in Debian's archive."""
    programs: tuple[str, ...]
    """What they add to the cell; each of them must be there when the image is made."""
    files: tuple[str, ...]
    """Files at a project's top that say that it fits."""


KITS = {
    kit.name: kit
    for kit in (
        Kit("go", ("golang-go",), ("go", "gofmt"), ("go.mod",)),
        Kit(
            "rust",
            ("cargo", "rustc", "rustfmt", "rust-clippy"),
            ("cargo", "rustc", "rustfmt", "cargo-clippy"),
            ("Cargo.toml",),
        ),
        Kit(
            "java",
            ("default-jdk-headless", "maven"),
            ("java", "javac", "mvn"),
            ("pom.xml", "build.gradle", "build.gradle.kts"),
        ),
        Kit(
            "ruby",
            ("ruby", "ruby-dev", "bundler", "rake", "ruby-rspec"),
            ("ruby", "bundle", "gem", "rake", "rspec"),
            ("Gemfile",),
        ),
        Kit(
            "php",
            ("php-cli", "php-curl", "php-mbstring", "php-xml", "composer", "phpunit"),
            ("php", "composer", "phpunit"),
            ("composer.json",),
        ),
    )
}
"""The kits by their name. A project of Gradle brings its own through `gradlew`."""
