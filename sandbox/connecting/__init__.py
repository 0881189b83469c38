# SPDX-License-Identifier: Apache-2.0
"""`lockgate connect`: put an agent's own configuration behind the gates, and take it back."""
