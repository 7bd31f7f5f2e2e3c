"""(see headrace.spark)"""
