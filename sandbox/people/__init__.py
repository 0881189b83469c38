# SPDX-License-Identifier: Apache-2.0
"""People: what they are asked and told, what they granted, and what agents have earned."""
