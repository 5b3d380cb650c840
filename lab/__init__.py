# SPDX-License-Identifier: GPL-2.0
"""The lab: fetch, patch, build, boot and measure Linux CPU hotplug."""
