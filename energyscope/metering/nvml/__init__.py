"""NVML: the binding, the boards, and the meters that read them through a process of their own."""
